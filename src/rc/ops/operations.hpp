// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT's operations on endpoints.
#pragma once

#include <sys/types.h>

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length);
ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt);
ssize_t ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void* arg, unsigned flags);
ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                         uct_completion_t* comp);

ucs_status_t ep_put_short(uct_ep_h ep, const void* buffer, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey);
ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void* arg, uint64_t remote_addr,
                     uct_rkey_t rkey);
ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_short(uct_ep_h ep, void* buffer, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey);
ucs_status_t ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void* arg, size_t length,
                          uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp);

// The same for callers that do not check the memory type of their buffers (any_memory.cpp).
ucs_status_t ep_put_short_any(uct_ep_h ep, const void* buffer, unsigned length,
                              uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t ep_get_bcopy_any(uct_ep_h ep, uct_unpack_callback_t unpack, void* arg, size_t length,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_put_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_am_zcopy_any(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                             const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                             uct_completion_t* comp);

// The same for memory that no HCA registers, through the interface's buffers.
ucs_status_t put_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t get_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t am_zcopy_unregistered(uct_ep_h ep, uint8_t id, const void* header,
                                   unsigned header_length, const uct_iov_t* iov, size_t iovcnt,
                                   unsigned flags);

// The same for callers that have not checked the memory type, and do so when GPU memory is refused
// (untyped_memory.hpp).
ucs_status_t ep_am_short_untyped(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                                 unsigned length);
ucs_status_t ep_am_short_iov_untyped(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt);
ucs_status_t ep_put_short_untyped(uct_ep_h ep, const void* buffer, unsigned length,
                                  uint64_t remote_addr, uct_rkey_t rkey);

ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* comp);
ucs_status_t ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint32_t* result, uct_completion_t* comp);
ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t remote_addr,
                              uct_rkey_t rkey);
ucs_status_t ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value, uint64_t remote_addr,
                              uct_rkey_t rkey);
ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value, uint32_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);

ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t* comp);
ucs_status_t ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t ep_check(uct_ep_h ep, unsigned flags, uct_completion_t* comp);
ucs_status_t iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t* comp);
ucs_status_t iface_fence(uct_iface_h iface, unsigned flags);

ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t* request, unsigned flags);
void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void* arg);

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* ep);
void ep_destroy(uct_ep_h ep);
ucs_status_t ep_invalidate(uct_ep_h ep);
bool ep_is_connected(uct_ep_h ep, const uct_device_addr_t* device, const uct_iface_addr_t* iface);

} // namespace gdr::rc
