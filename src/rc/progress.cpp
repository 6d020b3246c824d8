// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The polling loop, and the completions of messages and sends in the usual case.
#include "rc/progress.hpp"

#include "abi/settings.hpp"
#include "rc/connect/wire.hpp"
#include "rc/endpoint.hpp"
#include "rc/events.hpp"
#include "rc/failed_completions.hpp"
#include "rc/pending.hpp"
#include "rc/send_completions.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

namespace gdr::rc {
namespace {

constexpr int kPollBatch = 16;

// ---- messages, which the polling loop handles itself
// Clears what a longer message has left there.
[[gnu::noinline]] void clear_behind(Iface& iface, const ibv_wc& wc)
{
    std::byte* const end = Receive::of(wc.wr_id)->data() + wc.byte_len;
    std::memset(end, 0,
                std::min<size_t>(abi::kReadBehindRts, iface.limits.segment_size() - wc.byte_len));
}

// Outside the loop, which does not keep its address in a register.
[[gnu::noinline]] void hold_receive(Iface& iface)
{
    iface.receives.hold();
}

// The buffer is computed again: keeping it would cost every poll that finds nothing.
template <bool kClearsBehind>
[[gnu::always_inline]] inline void deliver(Iface& iface, const ibv_wc& wc)
{
    const auto receive = [&wc] { return Receive::of(wc.wr_id); };
    const uint32_t id = ntohl(wc.imm_data) & kAmIdMask;
    if (kClearsBehind && id == abi::kRtsId) [[unlikely]] {
        clear_behind(iface, wc);
    }
    const abi::AmHandler& handler = iface.am[id];
    ucs_status_t status =
        handler.cb(handler.arg, receive()->data(), wc.byte_len, iface.receives.keep_flag());
    if (status == UCS_INPROGRESS) {
        hold_receive(iface);
    } else {
        iface.receives.put(receive());
    }
}

// A grant, or a request for one.
void handle_control(Iface& iface, uint32_t qpn, uint32_t immediate)
{
    if (immediate & kWindowGrant) {
        if (Endpoint* ep = iface.endpoints.of_queue_pair(qpn); ep != nullptr) {
            ep->window += ep->half_window_mask + 1;
        }
        return;
    }
    if (WindowCredit* credit = find_window_credit(iface, qpn); credit != nullptr) {
        iface.window_credits->request(*credit);
    }
}

// Outside the loop, which saves no registers for it.
template <bool kClearsBehind>
[[gnu::noinline]] void handle_control_message(Iface& iface, const ibv_wc& wc)
{
    const uint32_t immediate = ntohl(wc.imm_data);
    handle_control(iface, wc.qp_num, immediate);
    if (immediate & kWindowGrant) {
        return iface.receives.put(Receive::of(wc.wr_id));
    }
    deliver<kClearsBehind>(iface, wc);
}

template <bool kClearsBehind>
[[gnu::always_inline]] inline void handle_message(Iface& iface, const ibv_wc& wc)
{
    if (wc.imm_data & htonl(kControlFlags)) [[unlikely]] {
        return handle_control_message<kClearsBehind>(iface, wc);
    }
    deliver<kClearsBehind>(iface, wc);
}

// ---- everything else
// The completion of a window grant, or of a destroyed endpoint, whose credits are back.
[[gnu::cold, gnu::noinline]] void handle_other_sent(Iface& iface, uint64_t wr_id)
{
    if (wr_id & kAcceptedBit) {
        iface.window_credits->sent(wr_id, IBV_WC_SUCCESS);
    }
}

[[gnu::always_inline]] inline void handle_sent(Iface& iface, uint64_t wr_id)
{
    const Endpoints::Slot& slot = iface.endpoints.slot(wr_id);
    if (!slot.posted(wr_id)) [[unlikely]] {
        return handle_other_sent(iface, wr_id);
    }
    Endpoint& ep = *slot.endpoint();
    if (ep.attention != 0) [[unlikely]] {
        return handle_sent_slow(ep, wr_id, UCS_OK);
    }
    ep.attention = Endpoint::kCompleting;
    finish_up_to(ep, wr_id, UCS_OK);
    if (ep.attention != Endpoint::kCompleting) [[unlikely]] { // a callback has changed it
        return handle_sent_end(ep, wr_id, UCS_OK);
    }
    count_up_to(ep, wr_id);
    ep.attention = 0;
}

// Handles any completion but a message.
[[gnu::noinline]] void handle_other(Iface& iface, const ibv_wc& wc)
{
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
        handle_error(iface, wc);
    } else if (wc.wr_id & kSendBit) [[likely]] {
        handle_sent(iface, wc.wr_id);
    } else {
        iface.receives.put(Receive::of(wc.wr_id));
        handle_intrusion(iface, wc);
    }
}

// A message is a SEND with immediate. Anything else that consumes a receive names no handler, or a
// length that is not the buffer's.
template <bool kClearsBehind>
[[gnu::always_inline]] inline void handle_now(Iface& iface, const ibv_wc& wc)
{
    if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_WITH_IMM))
        [[likely]] {
        handle_message<kClearsBehind>(iface, wc);
    } else {
        handle_other(iface, wc);
    }
}

template <bool kClearsBehind>
[[gnu::always_inline]] inline unsigned poll(Iface& iface)
{
    ibv_wc completions[kPollBatch];
    const int polled = iface.completions.poll(kPollBatch, completions);
    if (polled <= 0) [[unlikely]] {
        return 0;
    }
    const ibv_wc* wc = completions;
    const ibv_wc* const end = wc + polled;
    do {
        handle_now<kClearsBehind>(iface, *wc);
    } while (++wc != end);
    if (!iface.pending_endpoints.empty()) {
        dispatch_pending(iface);
    }
    return 1; // UCT only asks whether there was anything; a count would take a register
}

template <bool kClearsBehind>
[[gnu::cold, gnu::noinline]] unsigned progress_attention(Iface& iface)
{
    const unsigned count = handle_attention(iface);
    if (iface.completions.saved() > 0) {
        return count; // completions polled now come after it
    }
    return count + poll<kClearsBehind>(iface);
}

} // namespace

template <bool kClearsBehind>
unsigned progress(uct_iface_h tl_iface)
{
    Iface& iface = rc_iface(tl_iface);
    if (iface.attention.wanted()) [[unlikely]] {
        return progress_attention<kClearsBehind>(iface);
    }
    return poll<kClearsBehind>(iface);
}
template unsigned progress<false>(uct_iface_h);
template unsigned progress<true>(uct_iface_h);

void handle_completion(Iface& iface, const ibv_wc& wc)
{
    return iface.rules.clears_behind ? handle_now<true>(iface, wc) : handle_now<false>(iface, wc);
}

} // namespace gdr::rc
