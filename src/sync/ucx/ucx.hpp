// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UCX that an application uses: its public functions, found in the process at run time, so that
// the library works with any UCX.
#pragma once

#include <string>

extern "C" {
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>
}

#define GDR_SYNC_UCX_FUNCTIONS(FUNCTION)                                                           \
    FUNCTION(ucp_am_send_nbx)                                                                      \
    FUNCTION(ucp_atomic_op_nbx)                                                                    \
    FUNCTION(ucp_context_query)                                                                    \
    FUNCTION(ucp_ep_close_nbx)                                                                     \
    FUNCTION(ucp_ep_create)                                                                        \
    FUNCTION(ucp_ep_flush_nbx)                                                                     \
    FUNCTION(ucp_ep_rkey_unpack)                                                                   \
    FUNCTION(ucp_get_nbx)                                                                          \
    FUNCTION(ucp_mem_map)                                                                          \
    FUNCTION(ucp_mem_unmap)                                                                        \
    FUNCTION(ucp_put_nbx)                                                                          \
    FUNCTION(ucp_request_cancel)                                                                   \
    FUNCTION(ucp_request_check_status)                                                             \
    FUNCTION(ucp_request_free)                                                                     \
    FUNCTION(ucp_rkey_buffer_release)                                                              \
    FUNCTION(ucp_rkey_destroy)                                                                     \
    FUNCTION(ucp_rkey_pack)                                                                        \
    FUNCTION(ucp_tag_recv_nbx)                                                                     \
    FUNCTION(ucp_tag_send_nbx)                                                                     \
    FUNCTION(ucp_worker_create)                                                                    \
    FUNCTION(ucp_worker_destroy)                                                                   \
    FUNCTION(ucp_worker_flush_nbx)                                                                 \
    FUNCTION(ucp_worker_get_address)                                                               \
    FUNCTION(ucp_worker_progress)                                                                  \
    FUNCTION(ucp_worker_query)                                                                     \
    FUNCTION(ucp_worker_release_address)                                                           \
    FUNCTION(ucs_log_dispatch)                                                                     \
    FUNCTION(ucs_status_string)

namespace gdr::sync {

struct Ucx {
#define GDR_SYNC_MEMBER(function) decltype(&::function) function;
    GDR_SYNC_UCX_FUNCTIONS(GDR_SYNC_MEMBER)
#undef GDR_SYNC_MEMBER
    ucs_global_opts_t* global_opts;
};

// Finds the UCX that has the function; nullptr: the only UCX in the process. Fills ucx or returns
// why it cannot, in one line.
std::string find_ucx(const void* function, Ucx& ucx);

} // namespace gdr::sync
