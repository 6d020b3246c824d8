// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Put and get of buffers whose memory type nobody has checked. UCP's protocols v1 do not ask
// whether a local buffer is GPU memory: up to 16 KiB they pass it to the short put, or let the CPU
// write it at the end of a buffered get (the buffer is the callback's argument). So these two
// operations check themselves, and use zero-copy for GPU memory.
//
// Protocols v1 also use zero-copy for managed memory, which no HCA registers: in segment lists,
// without a registration, and in large puts and gets. The CPU can access this memory, so it goes
// through the interface's buffers.
#include "abi/border.hpp"
#include "abi/completion.hpp"
#include "mem/cuda_memory.hpp"
#include "mem/host_pages.hpp"
#include "rc/memory_domain.hpp"
#include "rc/ops/gather.hpp"
#include "rc/ops/operations.hpp"
#include "rc/ops/refusal.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace gdr::rc {
namespace {

struct Local {
    mem::Region* region = nullptr; // of GPU memory; nullptr: the CPU can access the memory
    ucs_status_t status = UCS_OK;  // why GPU memory could not be detected or registered
};

[[gnu::always_inline]] inline bool is_known_host_memory(const void* address)
{
    return mem::host_pages::contains(reinterpret_cast<uintptr_t>(address));
}

Local detect(Iface& iface, const void* address, size_t length)
{
    Local local;
    if (is_known_host_memory(address)) {
        return local;
    }
    local.status = abi::guarded("rc: put or get", [&] {
        const auto memory =
            mem::ask_for_cuda_memory(*cuda::open_driver(), address, iface.rules.keep_host_pages);
        if (!memory || memory->kind == cuda::MemoryKind::managed) {
            return UCS_OK;
        }
        uct_mem_h memh = nullptr;
        const ucs_status_t status =
            iface.domain.reg(const_cast<void*>(address), length, {.hide_errors = true}, &memh);
        local.region = static_cast<mem::Region*>(memh);
        return status;
    });
    return local;
}

void release_region(const SendOp& op)
{
    mem::Cache::release(static_cast<mem::Region*>(op.result));
}

struct Piece {
    const void* start;
    size_t length;
};

size_t pack_piece(void* buffer, void* arg)
{
    const auto& piece = *static_cast<const Piece*>(arg);
    std::memcpy(buffer, piece.start, piece.length);
    return piece.length;
}

// An operation that takes several buffers gets all of them at once or none.
size_t pieces(const Iface& iface, size_t length)
{
    return (length + iface.limits.segment_size() - 1) / iface.limits.segment_size();
}
bool has_room(Endpoint& ep, size_t count)
{
    const Iface& iface = ep.iface();
    ep.settle();
    ep.needs_several =
        std::min(ep.credits(), iface.credits.available()) < static_cast<int>(count) ||
        iface.buffers->available() < count;
    return !ep.needs_several;
}

// Calls function with the offset and length of each piece until a call fails.
ucs_status_t for_each_piece(const Iface& iface, size_t length, auto function)
{
    for (size_t done = 0; done < length; done += iface.limits.segment_size()) {
        const ucs_status_t status =
            function(done, std::min<size_t>(length - done, iface.limits.segment_size()));
        if (UCS_STATUS_IS_ERR(status)) {
            return status;
        }
    }
    return UCS_OK;
}

ucs_status_t put_buffered(uct_ep_h tl_ep, const void* buffer, size_t length, uint64_t remote_addr,
                          uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (!has_room(ep, pieces(ep.iface(), length))) [[unlikely]] {
        return ep.unavailable();
    }
    return for_each_piece(ep.iface(), length, [&](size_t done, size_t size) {
        Piece piece{static_cast<const std::byte*>(buffer) + done, size};
        const ssize_t sent = ep_put_bcopy(tl_ep, pack_piece, &piece, remote_addr + done, rkey);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    });
}

// Sends what does not fit into one buffer in one work request: a second work request would take as
// long again.
ucs_status_t put_of_two_buffers(Endpoint& ep, const void* data, size_t length, uint64_t remote_addr,
                                uct_rkey_t rkey)
{
    if (!has_room(ep, 2) || !ep.ready()) [[unlikely]] {
        return ep.unavailable();
    }
    SendBuffers& buffers = *ep.iface().buffers;
    std::byte* const first = buffers.take();
    std::byte* const second = buffers.take();
    const size_t split = ep.iface().limits.segment_size();
    std::memcpy(first, data, split);
    std::memcpy(second, static_cast<const std::byte*>(data) + split, length - split);
    Gather gather;
    gather.add(first, split, buffers.lkey());
    gather.add(second, length - split, buffers.lkey());
    ibv_send_wr wr = rdma_request(IBV_WR_RDMA_WRITE, gather.sge, gather.count, remote_addr, rkey);
    const SendOp both{.length = buffers.number_of(second),
                      .handler =
                          [](Endpoint& sender, const SendOp& op, ucs_status_t) {
                              SendBuffers& pool = *sender.iface().buffers;
                              pool.put(op.buffer);
                              pool.put(pool.numbered(op.length));
                          },
                      .buffer = first};
    const ucs_status_t status = post_tracked(ep.iface(), ep, wr, signalled_for(buffers), both);
    if (status != UCS_INPROGRESS) [[unlikely]] {
        buffers.put(second);
        return status;
    }
    ep.iface().traffic.count(memory_kind(rkey), length);
    return UCS_OK;
}

// The last piece completes after all others, and fails if one of them fails.
ucs_status_t get_buffered(uct_ep_h tl_ep, void* buffer, size_t length, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    if (!has_room(ep, pieces(ep.iface(), length))) [[unlikely]] {
        return ep.unavailable();
    }
    const auto unpack = [](void* to, const void* from, size_t size) {
        std::memcpy(to, from, size);
    };
    const ucs_status_t status = for_each_piece(ep.iface(), length, [&](size_t done, size_t size) {
        return ep_get_bcopy(tl_ep, unpack, static_cast<std::byte*>(buffer) + done, size,
                            remote_addr + done, rkey, done + size == length ? comp : nullptr);
    });
    return status == UCS_OK ? UCS_INPROGRESS : status;
}

// Unregistered memory goes through the buffers in one piece only. Returns UCS_OK or the error.
ucs_status_t check_unregistered(Endpoint& ep, const char* call, const uct_iov_t* iov, size_t iovcnt)
{
    const Limit pieces{"the number of pieces, one of them not registered,", iovcnt, 1};
    const Limit length = limit_length(iov->length * iov->count, ep.iface().limits.max_zcopy());
    return exceeded(pieces, length) ? refused(ep, call, {pieces, length}) : UCS_OK;
}

// The caller may change the buffer once this returns, so the HCA must have read it: waits for one
// round trip, as a short get does.
ucs_status_t put_region(Endpoint& ep, mem::Region& region, const void* buffer, unsigned length,
                        uint64_t remote_addr, uct_rkey_t rkey)
{
    const SendOp release{
        .handler = [](Endpoint&, const SendOp& op, ucs_status_t) { release_region(op); },
        .result = &region};
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer), length, region.lkey};
    ibv_send_wr wr = rdma_request(IBV_WR_RDMA_WRITE, &sge, 1, remote_addr, rkey);
    if (const ucs_status_t status = ep.post(wr, IBV_SEND_SIGNALED); status != UCS_OK) {
        release_region(release);
        return status;
    }
    ep.remember(ep.ops.next() = release);
    ep.iface().traffic.count(static_cast<unsigned>(mem::MemoryKind::device), length);
    return ep.iface().wait_for(ep.last_wr_id);
}

// Everything but the fast path, which saves no registers for it.
[[gnu::noinline]] ucs_status_t put_short_otherwise(uct_ep_h tl_ep, const void* buffer,
                                                   unsigned length, uint64_t remote_addr,
                                                   uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (!ep.ready() || exceeded(limit_length(length, Limits::kMaxPutOfAnyMemory))) [[unlikely]] {
        return refused(ep, "put_short", {limit_length(length, Limits::kMaxPutOfAnyMemory)});
    }
    if (length == 0) {
        return ep_put_short(tl_ep, buffer, length, remote_addr, rkey);
    }
    const Local local = detect(ep.iface(), buffer, length);
    if (local.status != UCS_OK) {
        return local.status;
    }
    if (local.region != nullptr) {
        return put_region(ep, *local.region, buffer, length, remote_addr, rkey);
    }
    if (length <= Limits::kMaxShort) {
        return ep_put_short(tl_ep, buffer, length, remote_addr, rkey);
    }
    if (length <= ep.iface().limits.segment_size()) {
        return put_buffered(tl_ep, buffer, length, remote_addr, rkey);
    }
    return put_of_two_buffers(ep, buffer, length, remote_addr, rkey);
}

[[gnu::cold, gnu::noinline]] ucs_status_t get_bcopy_slow(uct_ep_h tl_ep,
                                                         uct_unpack_callback_t unpack, void* arg,
                                                         size_t length, uint64_t remote_addr,
                                                         uct_rkey_t rkey, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    if (length == 0) {
        return UCS_OK;
    }
    const Limit limit = limit_length(length, ep.iface().limits.segment_size());
    if (!ep.ready() || limit.exceeded()) {
        return refused(ep, "get_bcopy", {limit});
    }
    const Local local = detect(ep.iface(), arg, length);
    if (local.status != UCS_OK) {
        return local.status;
    }
    if (local.region == nullptr) {
        return ep_get_bcopy(tl_ep, unpack, arg, length, remote_addr, rkey, comp);
    }
    ibv_sge sge{reinterpret_cast<uintptr_t>(arg), static_cast<uint32_t>(length),
                local.region->lkey};
    ibv_send_wr wr = rdma_request(IBV_WR_RDMA_READ, &sge, 1, remote_addr, rkey);
    const SendOp op{.handler =
                        [](Endpoint&, const SendOp& op, ucs_status_t status) {
                            release_region(op);
                            abi::complete(op.completion, status);
                        },
                    .completion = comp,
                    .result = local.region};
    const ucs_status_t status = post_tracked(ep.iface(), ep, wr, signalled_for(comp), op);
    if (status == UCS_INPROGRESS) {
        ep.iface().traffic.count(static_cast<unsigned>(mem::MemoryKind::device), length);
    } else {
        release_region(op);
    }
    return status;
}

} // namespace

ucs_status_t ep_put_short_any(uct_ep_h tl_ep, const void* buffer, unsigned length,
                              uint64_t remote_addr, uct_rkey_t rkey)
{
    Endpoint& ep = endpoint(tl_ep);
    if (length >= ep.iface().limits.inline_end() || !is_known_host_memory(buffer) ||
        !ep.take_budgeted()) [[unlikely]] {
        return put_short_otherwise(tl_ep, buffer, length, remote_addr, rkey);
    }
    return put_inline<Post::budgeted>(ep, buffer, length, remote_addr, rkey);
}

ucs_status_t ep_get_bcopy_any(uct_ep_h tl_ep, uct_unpack_callback_t unpack, void* arg,
                              size_t length, uint64_t remote_addr, uct_rkey_t rkey,
                              uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    const Iface& iface = ep.iface();
    if (!is_known_host_memory(arg) || length - 1 >= iface.limits.segment_size() ||
        comp == nullptr || !iface.buffers->any() || !ep.take_budgeted()) [[unlikely]] {
        return get_bcopy_slow(tl_ep, unpack, arg, length, remote_addr, rkey, comp);
    }
    return post_get<Post::budgeted>(ep, IBV_SEND_SIGNALED, unpack, arg, length, remote_addr, rkey,
                                    comp);
}

ucs_status_t put_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t*)
{
    const ucs_status_t status = check_unregistered(endpoint(ep), "put_zcopy", iov, iovcnt);
    if (status != UCS_OK) [[unlikely]] {
        return status;
    }
    return put_buffered(ep, iov->buffer, iov->length * iov->count, remote_addr, rkey);
}

ucs_status_t get_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    const ucs_status_t status = check_unregistered(endpoint(ep), "get_zcopy", iov, iovcnt);
    if (status != UCS_OK) [[unlikely]] {
        return status;
    }
    return get_buffered(ep, iov->buffer, iov->length * iov->count, remote_addr, rkey, comp);
}

ucs_status_t am_zcopy_unregistered(uct_ep_h ep, uint8_t id, const void* header,
                                   unsigned header_length, const uct_iov_t* iov, size_t iovcnt,
                                   unsigned flags)
{
    size_t whole = header_length;
    for (const uct_iov_t& part : std::span(iov, iovcnt)) {
        whole += part.length * part.count;
    }
    Endpoint& sender = endpoint(ep);
    const Limit limit = limit_length(whole, sender.iface().limits.segment_size());
    if (exceeded(limit, limit_header(header_length))) [[unlikely]] {
        return refused(sender, "am_zcopy", {limit, limit_header(header_length)});
    }
    const auto pack = [&](std::byte* buffer) {
        size_t length = 0;
        const auto append = [&](const void* data, size_t bytes) {
            if (bytes > 0) { // else its address may be invalid
                std::memcpy(buffer + length, data, bytes);
            }
            length += bytes;
        };
        append(header, header_length);
        for (const uct_iov_t& part : std::span(iov, iovcnt)) {
            append(part.buffer, part.length * part.count);
        }
        return length;
    };
    const auto call = [](void* buffer, void* arg) {
        return (*static_cast<decltype(pack)*>(arg))(static_cast<std::byte*>(buffer));
    };
    const ssize_t sent =
        ep_am_bcopy(ep, id, call, const_cast<void*>(static_cast<const void*>(&pack)), flags);
    return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
}

} // namespace gdr::rc
