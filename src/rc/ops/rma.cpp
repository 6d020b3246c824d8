// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Remote memory access: RDMA WRITE and READ.
#include "rc/ops/gather.hpp"
#include "rc/ops/operations.hpp"
#include "rc/ops/refusal.hpp"
#include "rc/ops/untyped_memory.hpp"

namespace gdr::rc {
namespace {

// WRITE or READ of registered memory. Protocols v1 of UCX 1.14 and 1.15 do not register managed
// memory at all, and pass the handle of whatever the request was used for before. otherwise handles
// unregistered memory.
template <Handles handles, auto otherwise>
ucs_status_t zcopy(uct_ep_h tl_ep, ibv_wr_opcode opcode, const char* call, const uct_iov_t* iov,
                   size_t iovcnt, uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    if (exceeded(limit_pieces(ep, iovcnt))) [[unlikely]] {
        return refused(ep, call, {limit_pieces(ep, iovcnt)});
    }
    Gather gather;
    unsigned kind = gather.add<handles>(iov, iovcnt);
    size_t max_zcopy = ep.iface().limits.max_zcopy();
    if (gather.length - 1 >= max_zcopy) [[unlikely]] { // nothing, or too much
        if (handles == Handles::unchecked && gather.length == Gather::kUnregistered) {
            return otherwise(tl_ep, iov, iovcnt, remote_addr, rkey, comp);
        }
        return gather.length == 0 ? UCS_OK : refused(gather, call, max_zcopy);
    }
    if (!ep.ready()) [[unlikely]] {
        return ep.unavailable();
    }
    ibv_send_wr wr = rdma_request(opcode, gather.sge, gather.count, remote_addr, rkey);
    ucs_status_t status = post_tracked(ep.iface(), ep, wr, signalled_for(comp),
                                       SendOp{.handler = finish_zcopy, .completion = comp});
    if (status == UCS_INPROGRESS) {
        ep.iface().traffic.count(kind | memory_kind(rkey), gather.length);
    }
    return status;
}

// pack(buffer) fills the buffer and returns the length. The caller has checked that a buffer is
// free, and ready() or taken a work request from the budget.
template <Post which, class Pack>
[[gnu::always_inline]] inline ucs_status_t
put_buffer(Endpoint& ep, const Pack& pack, uint64_t remote_addr, uct_rkey_t rkey, unsigned flags)
{
    Iface& iface = ep.iface();
    std::byte* buffer = iface.buffers->take();
    const size_t length = pack(buffer);
    ibv_send_wr& wr = iface.prepared.write;
    iface.prepared.set_buffer(buffer, length);
    wr.num_sge = length > 0;
    set_remote(wr, remote_addr, rkey);
    return post_buffer<which>(iface, ep, wr, flags, buffer, length, memory_kind(rkey));
}

// For data that does not fit into the work request. Otherwise like put_inline().
template <Post which>
[[gnu::always_inline]] inline ucs_status_t put_copied(Endpoint& ep, const void* data,
                                                      unsigned length, uint64_t remote_addr,
                                                      uct_rkey_t rkey, unsigned flags)
{
    const auto pack = [&](std::byte* buffer) {
        copy_into_buffer(buffer, data, length);
        return size_t{length};
    };
    return put_buffer<which>(ep, pack, remote_addr, rkey, flags);
}

template <Payload kind>
[[gnu::cold, gnu::noinline]] ucs_status_t put_short_slow(uct_ep_h tl_ep, const void* buffer,
                                                         unsigned length, uint64_t remote_addr,
                                                         uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    const bool fits = length < ep.iface().limits.inline_end();
    const Limit limit = limit_length(length, Limits::kMaxShort);
    if (!ep.ready() || (!fits && !ep.iface().buffers->any()) || limit.exceeded()) {
        return refused(ep, "put_short", {limit});
    }
    if (ucs_status_t status = check_memory<kind>(ep, buffer, length); status != UCS_OK) {
        return status;
    }
    return fits ? put_inline<Post::any>(ep, buffer, length, remote_addr, rkey)
                : put_copied<Post::any>(ep, buffer, length, remote_addr, rkey,
                                        signalled_for_buffers(ep));
}

template <Payload kind>
[[gnu::noinline]] ucs_status_t put_short_copied(uct_ep_h tl_ep, const void* buffer, unsigned length,
                                                uint64_t remote_addr, uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (length < ep.iface().limits.inline_end() || length > Limits::kMaxShort || lacks_buffer(ep) ||
        !is_host<kind>(buffer) || !ep.take_budgeted()) [[unlikely]] {
        return put_short_slow<kind>(tl_ep, buffer, length, remote_addr, rkey);
    }
    return put_copied<Post::budgeted>(ep, buffer, length, remote_addr, rkey, 0);
}

// Everything but data that fits into a work request is in a function of its own, so that this one
// saves no registers for it.
template <Payload kind>
[[gnu::always_inline]] inline ucs_status_t put_short(uct_ep_h tl_ep, const void* buffer,
                                                     unsigned length, uint64_t remote_addr,
                                                     uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (length >= ep.iface().limits.inline_end() || !is_host<kind>(buffer) || !ep.take_budgeted())
        [[unlikely]] {
        return put_short_copied<kind>(tl_ep, buffer, length, remote_addr, rkey);
    }
    return put_inline<Post::budgeted>(ep, buffer, length, remote_addr, rkey);
}

} // namespace

ucs_status_t ep_put_short(uct_ep_h ep, const void* buffer, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey)
{
    return put_short<Payload::typed>(ep, buffer, length, remote_addr, rkey);
}

ucs_status_t ep_put_short_untyped(uct_ep_h ep, const void* buffer, unsigned length,
                                  uint64_t remote_addr, uct_rkey_t rkey)
{
    return put_short<Payload::untyped>(ep, buffer, length, remote_addr, rkey);
}

namespace {

// Like put_buffer().
template <Post which>
[[gnu::always_inline]] inline ssize_t put_packed(Endpoint& ep, uct_pack_callback_t pack, void* arg,
                                                 uint64_t remote_addr, uct_rkey_t rkey,
                                                 unsigned flags)
{
    size_t length;
    const ucs_status_t status = put_buffer<which>(
        ep, [&](std::byte* buffer) { return length = pack(buffer, arg); }, remote_addr, rkey,
        flags);
    return status == UCS_OK ? static_cast<ssize_t>(length) : static_cast<ssize_t>(status);
}

[[gnu::cold, gnu::noinline]] ssize_t put_bcopy_slow(Endpoint& ep, uct_pack_callback_t pack,
                                                    void* arg, uint64_t remote_addr,
                                                    uct_rkey_t rkey)
{
    if (!ep.ready() || !ep.iface().buffers->any()) {
        return ep.unavailable();
    }
    return put_packed<Post::any>(ep, pack, arg, remote_addr, rkey, signalled_for_buffers(ep));
}

} // namespace

ssize_t ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack, void* arg, uint64_t remote_addr,
                     uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (lacks_buffer(ep) || !ep.take_budgeted()) [[unlikely]] {
        return put_bcopy_slow(ep, pack, arg, remote_addr, rkey);
    }
    return put_packed<Post::budgeted>(ep, pack, arg, remote_addr, rkey, 0);
}

ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp)
{
    return zcopy<Handles::trusted, put_zcopy_unregistered>(ep, IBV_WR_RDMA_WRITE, "put_zcopy", iov,
                                                           iovcnt, remote_addr, rkey, comp);
}

ucs_status_t ep_put_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    return zcopy<Handles::unchecked, put_zcopy_unregistered>(ep, IBV_WR_RDMA_WRITE, "put_zcopy",
                                                             iov, iovcnt, remote_addr, rkey, comp);
}

ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp)
{
    return zcopy<Handles::trusted, get_zcopy_unregistered>(ep, IBV_WR_RDMA_READ, "get_zcopy", iov,
                                                           iovcnt, remote_addr, rkey, comp);
}

ucs_status_t ep_get_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    return zcopy<Handles::unchecked, get_zcopy_unregistered>(ep, IBV_WR_RDMA_READ, "get_zcopy", iov,
                                                             iovcnt, remote_addr, rkey, comp);
}

ucs_status_t ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack, void* arg, size_t length,
                          uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (length - 1 >= iface.limits.segment_size()) [[unlikely]] { // nothing, or too much
        return length == 0
                   ? UCS_OK
                   : refused(ep, "get_bcopy", {limit_length(length, iface.limits.segment_size())});
    }
    if (!ep.ready() || !iface.buffers->any()) [[unlikely]] {
        return ep.unavailable();
    }
    return post_get<Post::any>(ep, signalled_for(comp) | signalled_for(*iface.buffers), unpack, arg,
                               length, remote_addr, rkey, comp);
}

// UCT's short get returns with the data: it waits for one round trip, without calling any callback.
ucs_status_t ep_get_short(uct_ep_h tl_ep, void* result, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (length - 1 >= iface.limits.max_get_short()) [[unlikely]] { // nothing, or too much
        return length == 0
                   ? UCS_OK
                   : refused(ep, "get_short", {limit_length(length, iface.limits.max_get_short())});
    }
    if (!ep.ready() || !iface.buffers->any()) [[unlikely]] {
        return ep.unavailable();
    }
    std::byte* buffer = iface.buffers->take();
    iface.prepared.set_buffer(buffer, length);
    set_remote(iface.prepared.read, remote_addr, rkey);
    const uint64_t wr_id = ep.next_wr_id();
    ep.set_buffer(wr_id, buffer);
    if (ucs_status_t status = ep.post_with_op(iface, wr_id, iface.prepared.read, IBV_SEND_SIGNALED);
        status != UCS_OK) {
        return status;
    }
    iface.traffic.count(memory_kind(rkey), length);
    ucs_status_t status = iface.wait_for(ep.last_wr_id);
    if (status == UCS_OK) {
        std::memcpy(result, buffer, length);
    }
    return status;
}

} // namespace gdr::rc
