// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UCX that programs get, opened at run time: the program is not linked with it, so that it runs
// with any, and can say that there is none. Members have the names and types of the functions.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#define GDR_UCP_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(ucp_cleanup)                                                                          \
    FUNCTION(ucp_config_read)                                                                      \
    FUNCTION(ucp_config_release)                                                                   \
    FUNCTION(ucp_ep_create)                                                                        \
    FUNCTION(ucp_ep_flush_nbx)                                                                     \
    FUNCTION(ucp_ep_rkey_unpack)                                                                   \
    FUNCTION(ucp_get_nbx)                                                                          \
    FUNCTION(ucp_get_version)                                                                      \
    FUNCTION(ucp_init_version)                                                                     \
    FUNCTION(ucp_mem_map)                                                                          \
    FUNCTION(ucp_mem_unmap)                                                                        \
    FUNCTION(ucp_put_nbx)                                                                          \
    FUNCTION(ucp_request_check_status)                                                             \
    FUNCTION(ucp_request_free)                                                                     \
    FUNCTION(ucp_rkey_buffer_release)                                                              \
    FUNCTION(ucp_rkey_destroy)                                                                     \
    FUNCTION(ucp_rkey_pack)                                                                        \
    FUNCTION(ucp_tag_recv_nbx)                                                                     \
    FUNCTION(ucp_tag_send_nbx)                                                                     \
    FUNCTION(ucp_worker_create)                                                                    \
    FUNCTION(ucp_worker_destroy)                                                                   \
    FUNCTION(ucp_worker_get_address)                                                               \
    FUNCTION(ucp_worker_progress)                                                                  \
    FUNCTION(ucp_worker_release_address)                                                           \
    FUNCTION(ucs_status_string)

namespace gdr::peer {

struct Ucp {
    Ucp(); // throws std::runtime_error

#define GDR_UCP_MEMBER(function) decltype(&::function) function = nullptr;
    GDR_UCP_FUNCTIONS(GDR_UCP_MEMBER)
#undef GDR_UCP_MEMBER

    // Throws std::runtime_error unless status is UCS_OK.
    void check(ucs_status_t status, const char* call) const;
};

} // namespace gdr::peer
