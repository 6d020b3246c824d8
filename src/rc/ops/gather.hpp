// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Building blocks of operations: UCT's scatter list as verbs', and posting with an operation that
// ends at the completion.
#pragma once

#include "abi/completion.hpp"
#include "mem/region.hpp"
#include "rc/current_region.hpp"
#include "rc/endpoint.hpp"
#include "rc/remote_key.hpp"

#include <cstdint>
#include <cstring>

namespace gdr::rc {

// Whether the memory handles of a list's pieces are as UCT promises, or come from callers that do
// not check the memory type of their buffers (any_memory.cpp).
enum class Handles { trusted, unchecked };

struct Gather {
    // the value of length if a piece has no memory handle or, unchecked, another buffer's
    static constexpr size_t kUnregistered = SIZE_MAX;

    ibv_sge sge[kMaxSge];
    int count = 0;
    size_t length = 0;

    void add(const void* buffer, size_t size, uint32_t lkey)
    {
        sge[count++] = {reinterpret_cast<uintptr_t>(buffer), static_cast<uint32_t>(size), lkey};
        length += size;
    }

    // Skips entries of length 0. Returns the kind of memory: device if any entry is.
    template <Handles handles>
    [[gnu::always_inline]] unsigned add(const uct_iov_t* iov, size_t iovcnt)
    {
        unsigned kind = 0;
        for (size_t i = 0; i < iovcnt; ++i) {
            size_t size = iov[i].length * iov[i].count;
            if (size > 0) {
                auto* region = static_cast<mem::Region*>(iov[i].memh);
                if (region == nullptr ||
                    (handles == Handles::unchecked &&
                     !region->covers(reinterpret_cast<uintptr_t>(iov[i].buffer), size)))
                    [[unlikely]] {
                    length = kUnregistered;
                    break;
                }
                if (region->changes_unseen) [[unlikely]] {
                    region = current_region(region, iov[i].buffer, size);
                    if (region == nullptr) {
                        length = kUnregistered;
                        break;
                    }
                }
                add(iov[i].buffer, size, region->lkey);
                kind |= static_cast<unsigned>(region->kind);
            }
        }
        return kind;
    }
};

inline void set_remote(ibv_send_wr& wr, uint64_t remote_addr, uct_rkey_t rkey)
{
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = verbs_rkey(rkey);
}

inline ibv_send_wr rdma_request(ibv_wr_opcode opcode, ibv_sge* sge, int sges, uint64_t remote_addr,
                                uct_rkey_t rkey)
{
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = sge;
    wr.num_sge = sges;
    wr.opcode = opcode;
    set_remote(wr, remote_addr, rkey);
    return wr;
}

// The caller has checked the length, and ready() or taken a work request from the budget.
template <Post which>
[[gnu::always_inline]] inline ucs_status_t
put_inline(Endpoint& ep, const void* buffer, unsigned length, uint64_t remote_addr, uct_rkey_t rkey)
{
    Iface& iface = ep.iface();
    PreparedRequests& prepared = iface.prepared;
    prepared.written.addr = reinterpret_cast<uintptr_t>(buffer);
    prepared.written.length = length;
    prepared.short_write.num_sge = length > 0;
    set_remote(prepared.short_write, remote_addr, rkey);
    iface.traffic.count(memory_kind(rkey), length);
    return ep.post<which>(prepared.short_write, IBV_SEND_INLINE);
}

// Logs that the list is longer than most bytes, or has a piece without a memory handle.
[[gnu::cold]] ucs_status_t refused(const Gather& gather, const char* call, size_t most);

// ---- ends of operations
inline void finish_zcopy(Endpoint& ep, const SendOp& op, ucs_status_t status)
{
    if (op.buffer != nullptr) {
        ep.iface().buffers->put(op.buffer);
    }
    abi::complete(op.completion, status);
}

// ---- posting
// A work request is signalled if somebody waits for it, or if it takes a buffer while buffers are
// scarce.
inline unsigned signalled_for(const uct_completion_t* completion)
{
    return completion != nullptr ? IBV_SEND_SIGNALED : 0;
}
inline unsigned signalled_for(const SendBuffers& buffers)
{
    return buffers.scarce() ? IBV_SEND_SIGNALED : 0;
}
inline unsigned signalled_for_buffers(Endpoint& ep)
{
    if (ep.buffered < kMostBuffered) {
        return signalled_for(*ep.iface().buffers);
    }
    ep.buffered = 0;
    return IBV_SEND_SIGNALED;
}

// Buffers are scarce, or this endpoint must signal a work request to get some back.
[[gnu::always_inline]] inline bool lacks_buffer(const Endpoint& ep)
{
    return ep.iface().buffers->scarce() || ep.buffered >= kMostBuffered;
}

// Calls the C library: if compilers know a limit of the length, or that the caller is cold, they
// emit "rep movs", which is slower from about 100 bytes on. data may be NULL if length is 0, as
// with an HCA without inline data: C2y allows that for memcpy.
[[gnu::noinline]] __attribute__((no_sanitize("nonnull-attribute"))) inline void
copy_into_buffer(std::byte* buffer, const void* data, size_t length)
{
    asm("" : "+r"(length));
    std::memcpy(buffer, data, length);
}

// UCS_INPROGRESS, or the failure; then left.buffer is back in its pool.
template <Post which = Post::any>
[[gnu::always_inline]] inline ucs_status_t post_tracked(Iface& iface, Endpoint& ep, ibv_send_wr& wr,
                                                        unsigned flags, SendOp left)
{
    left.wr_id = ep.next_wr_id();
    ep.ops.next() = left;
    return ep.post_with_op<which, UCS_INPROGRESS>(iface, left.wr_id, wr, flags);
}

// The buffer holds the whole message. If the message fits into the work request, the buffer is free
// again at once.
template <Post which>
[[gnu::always_inline]] inline ucs_status_t post_buffer(Iface& iface, Endpoint& ep, ibv_send_wr& wr,
                                                       unsigned flags, std::byte* buffer,
                                                       size_t length, unsigned remote_kind = 0)
{
    iface.traffic.count(remote_kind, length);
    if (length >= iface.limits.inline_end()) [[likely]] {
        ep.buffered += length;
        const uint64_t wr_id = ep.next_wr_id();
        ep.set_buffer(wr_id, buffer);
        return ep.post_with_op<which>(iface, wr_id, wr, flags);
    }
    const ucs_status_t status = ep.post<which>(wr, IBV_SEND_INLINE);
    iface.buffers->put(buffer);
    return status;
}

// Reads into a buffer, from which the data is unpacked. The caller has checked the length, that a
// buffer is free, and ready() or taken a work request from the budget.
template <Post which>
[[gnu::always_inline]] inline ucs_status_t
post_get(Endpoint& ep, unsigned flags, uct_unpack_callback_t unpack, void* arg, size_t length,
         uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    Iface& iface = ep.iface();
    std::byte* buffer = iface.buffers->take();
    iface.prepared.set_buffer(buffer, length);
    set_remote(iface.prepared.read, remote_addr, rkey);
    iface.traffic.count(memory_kind(rkey), length);
    SendOp op;
    op.kind = SendOp::Kind::get;
    op.length = static_cast<uint32_t>(length);
    op.unpack = unpack;
    op.completion = comp;
    op.buffer = buffer;
    op.result = arg;
    return post_tracked<which>(iface, ep, iface.prepared.read, flags, op);
}

} // namespace gdr::rc
