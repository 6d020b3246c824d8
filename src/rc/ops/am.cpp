// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Active messages are SENDs with immediate; the immediate data name the handler.
#include "rc/endpoint.hpp"
#include "rc/ops/gather.hpp"
#include "rc/ops/operations.hpp"
#include "rc/ops/refusal.hpp"
#include "rc/ops/untyped_memory.hpp"

#include <cstring>
#include <span>

#include <arpa/inet.h>

namespace gdr::rc {
namespace {

bool can_send(Endpoint& ep)
{
    return ep.ready() && ep.window > 0;
}

// Takes one message from the window.
template <Post which>
uint32_t immediate(Endpoint& ep, uint8_t id)
{
    --ep.window;
    return which == Post::budgeted ? immediate_of(id) : immediate_of(id) | ep.extra_immediate;
}

ibv_send_wr send_request(Endpoint& ep, uint8_t id, ibv_sge* sge, int sges)
{
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = sge;
    wr.num_sge = sges;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = immediate<Post::any>(ep, id);
    return wr;
}

// The caller has checked can_send(), or taken a work request from the budget. It has also checked
// the limits and the memory of the payload.
template <Post which>
[[gnu::always_inline]] inline ucs_status_t send_inline(Endpoint& ep, uint8_t id, uint64_t header,
                                                       const void* payload, unsigned length)
{
    PreparedRequests& prepared = ep.iface().prepared;
    prepared.header = header;
    prepared.parts[1].addr = reinterpret_cast<uintptr_t>(payload);
    prepared.parts[1].length = length;
    prepared.short_message.imm_data = immediate<which>(ep, id);
    return ep.post<which>(prepared.short_message, IBV_SEND_INLINE);
}

// pack(buffer) fills the buffer and returns the length. The caller has checked can_send(), or taken
// a work request from the budget, and that a buffer is free.
template <Post which, class Pack>
[[gnu::always_inline]] inline ucs_status_t send_buffer(Endpoint& ep, uint8_t id, const Pack& pack,
                                                       unsigned flags)
{
    Iface& iface = ep.iface();
    std::byte* buffer = iface.buffers->take();
    const size_t length = pack(buffer);
    iface.prepared.set_buffer(buffer, length);
    iface.prepared.message.imm_data = immediate<which>(ep, id);
    return post_buffer<which>(iface, ep, iface.prepared.message, flags, buffer, length);
}

// Sends a message that does not fit into the work request through a buffer. Otherwise like
// send_inline().
template <Post which>
[[gnu::always_inline]] inline ucs_status_t send_copied(Endpoint& ep, uint8_t id, uint64_t header,
                                                       const void* payload, unsigned length,
                                                       unsigned flags)
{
    const auto pack = [&](std::byte* buffer) {
        std::memcpy(buffer, &header, sizeof(header));
        copy_into_buffer(buffer + sizeof(header), payload, length);
        return sizeof(header) + length;
    };
    return send_buffer<which>(ep, id, pack, flags);
}

// A Limit for a payload that goes inside its work request.
struct InlinePayload {
    unsigned length;
    unsigned end;

    bool exceeded() const { return length >= end; }
};

Limit limit_payload(size_t length)
{
    return limit_length(length, Limits::kMaxShort);
}

template <Payload kind>
[[gnu::cold, gnu::noinline]] ucs_status_t
send_short_slow(uct_ep_h tl_ep, uint8_t id, uint64_t header, const void* payload, unsigned length)
{
    Endpoint& ep = endpoint(tl_ep);
    const bool fits = length < ep.iface().limits.payload_end();
    const Limit limit = limit_payload(length);
    if (!can_send(ep) || (!fits && !ep.iface().buffers->any()) || exceeded(limit_id(id), limit)) {
        return refused(ep, "am_short", {limit_id(id), limit});
    }
    if (ucs_status_t status = check_memory<kind>(ep, payload, length); status != UCS_OK) {
        return status;
    }
    return fits
               ? send_inline<Post::any>(ep, id, header, payload, length)
               : send_copied<Post::any>(ep, id, header, payload, length, signalled_for_buffers(ep));
}

template <Payload kind>
[[gnu::noinline]] ucs_status_t send_short_copied(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                                 const void* payload, unsigned length)
{
    Endpoint& ep = endpoint(tl_ep);
    if (length < ep.iface().limits.payload_end() || lacks_buffer(ep) ||
        exceeded(limit_id(id), limit_payload(length)) || !is_host<kind>(payload) ||
        !ep.take_budgeted()) [[unlikely]] {
        return send_short_slow<kind>(tl_ep, id, header, payload, length);
    }
    return send_copied<Post::budgeted>(ep, id, header, payload, length, 0);
}

// Everything but messages that fit into a work request is in a function of its own, so that this
// one saves no registers for it. The budget never exceeds the window.
template <Payload kind>
[[gnu::always_inline]] inline ucs_status_t send_short(uct_ep_h tl_ep, uint8_t id, uint64_t header,
                                                      const void* payload, unsigned length)
{
    Endpoint& ep = endpoint(tl_ep);
    if (exceeded(limit_id(id), InlinePayload{length, ep.iface().limits.payload_end()}) ||
        !is_host<kind>(payload) || !ep.take_budgeted()) [[unlikely]] {
        return send_short_copied<kind>(tl_ep, id, header, payload, length);
    }
    return send_inline<Post::budgeted>(ep, id, header, payload, length);
}

template <Payload kind>
[[gnu::always_inline]] inline ucs_status_t send_short_iov(uct_ep_h tl_ep, uint8_t id,
                                                          const uct_iov_t* iov, size_t iovcnt)
{
    Endpoint& ep = endpoint(tl_ep);
    if (!can_send(ep) || exceeded(limit_id(id), limit_pieces(ep, iovcnt))) [[unlikely]] {
        return refused(ep, "am_short_iov", {limit_id(id), limit_pieces(ep, iovcnt)});
    }
    Iface& iface = ep.iface();
    ibv_sge sge[kMaxSge];
    unsigned sges = 0;
    size_t total = 0;
    for (size_t i = 0; i < iovcnt; ++i) {
        if (iov[i].length > 0) {
            if (ucs_status_t status = check_memory<kind>(ep, iov[i].buffer, iov[i].length);
                status != UCS_OK) [[unlikely]] {
                return status;
            }
            sge[sges++] = {reinterpret_cast<uintptr_t>(iov[i].buffer),
                           static_cast<uint32_t>(iov[i].length), 0};
            total += iov[i].length;
        }
    }
    if (total < iface.limits.inline_end()) {
        ibv_send_wr wr = send_request(ep, id, sge, static_cast<int>(sges));
        return ep.post(wr, IBV_SEND_INLINE);
    }
    const Limit limit = limit_length(total, sizeof(uint64_t) + Limits::kMaxShort);
    if (limit.exceeded() || !iface.buffers->any()) [[unlikely]] {
        return refused(ep, "am_short_iov", {limit});
    }
    const auto pack = [&](std::byte* buffer) {
        for (const ibv_sge& piece : std::span(sge, sges)) {
            copy_into_buffer(buffer, reinterpret_cast<const void*>(piece.addr), piece.length);
            buffer += piece.length;
        }
        return total;
    };
    return send_buffer<Post::any>(ep, id, pack, signalled_for_buffers(ep));
}

} // namespace

ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length)
{
    return send_short<Payload::typed>(ep, id, header, payload, length);
}

ucs_status_t ep_am_short_untyped(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                                 unsigned length)
{
    return send_short<Payload::untyped>(ep, id, header, payload, length);
}

ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt)
{
    return send_short_iov<Payload::typed>(ep, id, iov, iovcnt);
}

ucs_status_t ep_am_short_iov_untyped(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt)
{
    return send_short_iov<Payload::untyped>(ep, id, iov, iovcnt);
}

namespace {

// Like send_buffer().
template <Post which>
[[gnu::always_inline]] inline ssize_t
send_packed(Endpoint& ep, uint8_t id, uct_pack_callback_t pack, void* arg, unsigned flags)
{
    size_t length;
    const ucs_status_t status = send_buffer<which>(
        ep, id, [&](std::byte* buffer) { return length = pack(buffer, arg); }, flags);
    return status == UCS_OK ? static_cast<ssize_t>(length) : static_cast<ssize_t>(status);
}

[[gnu::cold, gnu::noinline]] ssize_t
send_bcopy_slow(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack, void* arg, unsigned flags)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (!can_send(ep) || !iface.buffers->any() || exceeded(limit_id(id))) [[unlikely]] {
        // UCP's keepalive must be sent even while the peer keeps the window shut, because it may be
        // dead. If nothing can be posted, completions that are due or the next keepalive will tell.
        // Do not make UCP try again: it would keep a reference to this endpoint, and read its
        // memory later if the endpoint fails meanwhile (docs/developers/defects.md).
        if (flags & UCT_SEND_FLAG_PEER_CHECK) {
            const ucs_status_t status = ep_check(tl_ep, 0, nullptr);
            if (status == UCS_OK || status == UCS_ERR_NO_RESOURCE) {
                return 0;
            }
        }
        return refused(ep, "am_bcopy", {limit_id(id)});
    }
    return send_packed<Post::any>(ep, id, pack, arg, signalled_for_buffers(ep));
}

} // namespace

ssize_t ep_am_bcopy(uct_ep_h tl_ep, uint8_t id, uct_pack_callback_t pack, void* arg, unsigned flags)
{
    Endpoint& ep = endpoint(tl_ep);
    if (lacks_buffer(ep) || exceeded(limit_id(id)) || !ep.take_budgeted()) [[unlikely]] {
        return send_bcopy_slow(tl_ep, id, pack, arg, flags);
    }
    return send_packed<Post::budgeted>(ep, id, pack, arg, 0);
}

namespace {

template <Handles handles>
[[gnu::always_inline]] inline ucs_status_t
send_zcopy(uct_ep_h tl_ep, uint8_t id, const void* header, unsigned header_length,
           const uct_iov_t* iov, size_t iovcnt, unsigned flags, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (!can_send(ep) || !iface.buffers->any() ||
        exceeded(limit_id(id), limit_header(header_length), limit_pieces(ep, iovcnt)))
        [[unlikely]] {
        return refused(ep, "am_zcopy",
                       {limit_id(id), limit_header(header_length), limit_pieces(ep, iovcnt)});
    }
    Gather gather;
    std::byte* buffer = nullptr;
    if (header_length > 0) {
        buffer = iface.buffers->take();
        std::memcpy(buffer, header, header_length);
        gather.add(buffer, header_length, iface.buffers->lkey());
    }
    unsigned kind = gather.add<handles>(iov, iovcnt);
    if (gather.length > iface.limits.segment_size()) [[unlikely]] {
        if (buffer != nullptr) {
            iface.buffers->put(buffer);
        }
        if (handles == Handles::unchecked && gather.length == Gather::kUnregistered) {
            return am_zcopy_unregistered(tl_ep, id, header, header_length, iov, iovcnt, flags);
        }
        return refused(gather, "am_zcopy", iface.limits.segment_size());
    }
    ibv_send_wr wr = send_request(ep, id, gather.sge, gather.count);
    ucs_status_t status = post_tracked(
        ep.iface(), ep, wr, signalled_for(comp) | (buffer ? signalled_for(*iface.buffers) : 0),
        SendOp{.handler = finish_zcopy, .completion = comp, .buffer = buffer});
    if (status != UCS_INPROGRESS) {
        return status;
    }
    iface.traffic.count(kind, gather.length);
    return UCS_INPROGRESS;
}

} // namespace

ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                         uct_completion_t* comp)
{
    return send_zcopy<Handles::trusted>(ep, id, header, header_length, iov, iovcnt, flags, comp);
}

ucs_status_t ep_am_zcopy_any(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                             const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                             uct_completion_t* comp)
{
    return send_zcopy<Handles::unchecked>(ep, id, header, header_length, iov, iovcnt, flags, comp);
}

} // namespace gdr::rc
