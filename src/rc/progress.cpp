// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Worker progress: polls and handles completions, retries pending requests, takes events of the
// handshake.
#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "rc/endpoint.hpp"
#include "rc/flushed_poll.hpp"
#include "rc/memory_domain.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace gdr::rc {
namespace {

constexpr int kPollBatch = 16;
constexpr char kIntrusion[] =
    "a connection is closed: its peer sent what no UCX with this transport sends";

ucs_status_t to_status(ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return UCS_OK;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return UCS_ERR_CONNECTION_RESET;
    case IBV_WC_WR_FLUSH_ERR:
        return UCS_ERR_CANCELED;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

// Whether both ids are of the same endpoint: only their numbers differ.
bool same_endpoint(uint64_t wr_id, uint64_t other)
{
    return (wr_id ^ other) << (64 - kNumberShift) == 0;
}
uint64_t grant_wr_id(const WindowCredit& credit)
{
    return kSendBit | kAcceptedBit | uint64_t{credit.qp->qp_num} << kGenerationShift;
}

// ---- an endpoint's work requests up to this one have completed
[[gnu::always_inline]] inline void finish_up_to(Endpoint& ep, uint64_t wr_id, ucs_status_t status)
{
    // Both ids are of the same endpoint, so the difference is that of the numbers.
    while (!ep.ops.empty() && static_cast<int64_t>(wr_id - ep.ops.front().wr_id) >= 0) {
        // InfiniBand says that everything before a failed work request has succeeded. But Soft-RoCE
        // reports one that finds no route before READs whose data has not arrived.
        ep.finish(ep.ops.pop(), status);
    }
}

[[gnu::always_inline]] inline void count_up_to(Endpoint& ep, uint64_t wr_id)
{
    ep.iface().tx_available += static_cast<SequenceNumber>(number_of(wr_id) - ep.completed);
    ep.completed = number_of(wr_id);
}

} // namespace

// ---- completions: the polling loop handles those of messages itself
template <bool kClearsBehind>
[[gnu::always_inline]] inline void Iface::handle_message(const ibv_wc& wc)
{
    if (wc.imm_data & htonl(kControlFlags)) [[unlikely]] {
        return handle_control_message<kClearsBehind>(wc);
    }
    deliver<kClearsBehind>(wc);
}

// Outside the loop, which saves no registers for it.
template <bool kClearsBehind>
[[gnu::noinline]] void Iface::handle_control_message(const ibv_wc& wc)
{
    const uint32_t immediate = ntohl(wc.imm_data);
    handle_control(wc, immediate);
    if (immediate & kWindowGrant) {
        return receives.put(Receive::of(wc.wr_id));
    }
    deliver<kClearsBehind>(wc);
}

// The buffer is computed again: keeping it would cost every poll that finds nothing.
template <bool kClearsBehind>
[[gnu::always_inline]] inline void Iface::deliver(const ibv_wc& wc)
{
    const auto receive = [&wc] { return Receive::of(wc.wr_id); };
    const uint32_t id = ntohl(wc.imm_data) & kAmIdMask;
    if (kClearsBehind && id == abi::kRtsId) [[unlikely]] {
        clear_behind(wc);
    }
    const abi::AmHandler& handler = am[id];
    ucs_status_t status =
        handler.cb(handler.arg, receive()->data(), wc.byte_len, receives.keep_flag());
    if (status == UCS_INPROGRESS) {
        hold_receive();
    } else {
        receives.put(receive());
    }
}

// Clears what a longer message has left there.
[[gnu::noinline]] void Iface::clear_behind(const ibv_wc& wc)
{
    std::byte* const end = Receive::of(wc.wr_id)->data() + wc.byte_len;
    std::memset(end, 0, std::min<size_t>(abi::kReadBehindRts, segment_size - wc.byte_len));
}

[[gnu::always_inline]] inline void Iface::handle_sent(uint64_t wr_id)
{
    const Slot& slot = slots[slot_of(wr_id)];
    if (!same_endpoint(slot.name, wr_id)) [[unlikely]] {
        return handle_other_sent(wr_id);
    }
    Endpoint& ep = *slot.endpoint;
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

// The completion of a window grant, or of a destroyed endpoint, whose credits are back.
[[gnu::cold, gnu::noinline]] void Iface::handle_other_sent(uint64_t wr_id)
{
    if (wr_id & kAcceptedBit) {
        handle_grant_sent(wr_id, IBV_WC_SUCCESS);
    }
}

[[gnu::cold, gnu::noinline]] void Iface::handle_sent_slow(Endpoint& ep, uint64_t wr_id,
                                                          ucs_status_t status)
{
    if (ep.failure == UCS_OK || !not_after(number_of(wr_id), ep.completed)) {
        ep.attention |= Endpoint::kCompleting;
        finish_up_to(ep, wr_id, status);
        handle_sent_end(ep, wr_id, status);
    } else if (ep.closing) { // a later completion was reported before this one
        finish_closing(ep);
    }
}

[[gnu::cold, gnu::noinline]] void Iface::handle_sent_end(Endpoint& ep, uint64_t wr_id,
                                                         ucs_status_t status)
{
    count_up_to(ep, wr_id);
    if (!ep.flush_waiters.empty()) {
        ep.notify_flush_waiters(status);
    }
    ep.update_attention();
    if (ep.closing) {
        finish_closing(ep);
    }
}

// This may have been its last work request.
[[gnu::noinline]] void Iface::finish_closing(Endpoint& ep)
{
    if (!ep.has_outstanding() || ep.failure != UCS_OK) {
        delete &ep;
    } else {
        ep.iface().finish(ep);
    }
}

// Outside the loop, which does not keep its address in a register.
[[gnu::noinline]] void Iface::hold_receive()
{
    receives.hold();
}

// Handles any completion but a message.
[[gnu::noinline]] void Iface::handle_other(const ibv_wc& wc)
{
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
        handle_error(wc);
    } else if (wc.wr_id & kSendBit) [[likely]] {
        handle_sent(wc.wr_id);
    } else {
        receives.put(Receive::of(wc.wr_id));
        handle_intrusion(wc);
    }
}

// A message is a SEND with immediate. Anything else that consumes a receive names no handler, or a
// length that is not the buffer's.
template <bool kClearsBehind>
[[gnu::always_inline]] inline void Iface::handle_now(const ibv_wc& wc)
{
    if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_WITH_IMM))
        [[likely]] {
        handle_message<kClearsBehind>(wc);
    } else {
        handle_other(wc);
    }
}

template <bool kClearsBehind>
[[gnu::always_inline]] inline unsigned Iface::poll()
{
    ibv_wc completions[kPollBatch];
    const int polled = poll_cq(cq, kPollBatch, completions);
    if (polled <= 0) [[unlikely]] {
        return 0;
    }
    const ibv_wc* wc = completions;
    const ibv_wc* const end = wc + polled;
    do {
        handle_now<kClearsBehind>(*wc);
    } while (++wc != end);
    if (!pending_endpoints.empty()) {
        dispatch_pending();
    }
    return 1; // UCT only asks whether there was anything; a count would take a register
}

template <bool kClearsBehind>
[[gnu::cold, gnu::noinline]] unsigned Iface::progress_attention()
{
    const unsigned count = handle_attention();
    if (!backlog.empty()) {
        return count; // completions polled now come after it
    }
    return count + poll<kClearsBehind>();
}

template <bool kClearsBehind>
unsigned Iface::progress()
{
    if (attention.load(std::memory_order_relaxed)) [[unlikely]] {
        return progress_attention<kClearsBehind>();
    }
    return poll<kClearsBehind>();
}
template unsigned Iface::progress<false>();
template unsigned Iface::progress<true>();

void Iface::handle(const ibv_wc& wc)
{
    return clears_behind ? handle_now<true>(wc) : handle_now<false>(wc);
}

void Iface::handle_intrusion(const ibv_wc& wc)
{
    if (auto found = endpoint_by_qpn.find(wc.qp_num); found != endpoint_by_qpn.end()) {
        if (found->second->failure == UCS_OK) {
            gdr_log(error, "%s", kIntrusion);
            found->second->fail(UCS_ERR_CONNECTION_RESET);
        }
    } else if (WindowCredit* credit = find_window_credit(wc.qp_num);
               credit != nullptr && !std::exchange(credit->failed, true)) {
        gdr_log(error, "%s", kIntrusion);
        handshake->accepted_failed(credit->name);
    }
}

[[gnu::cold, gnu::noinline]] void Iface::handle_error(const ibv_wc& wc)
{
    ucs_status_t status = to_status(wc.status);
    if (!(wc.wr_id & kSendBit)) {
        // The receive comes back when its queue pair ends. Otherwise it is the HCA's own problem
        // (length, protection), and the sender's HCA reports it to the sender.
        if (wc.status != IBV_WC_WR_FLUSH_ERR) {
            gdr_log(error, "%s failed to receive a message: %s (%s)", device.name().c_str(),
                    ibv_wc_status_str(wc.status), verbs::completion_cause(wc.status));
        }
        if (ibv_qp* emptied = receive_queues->take_unfilled(wc); emptied != nullptr) {
            handshake->receives_done(emptied);
        }
        return;
    }
    if (wc.wr_id & kAcceptedBit) {
        return handle_grant_sent(wc.wr_id, wc.status);
    }
    const Slot& slot = slots[slot_of(wc.wr_id)];
    if (!same_endpoint(slot.name, wc.wr_id)) {
        return; // destroyed before, its credits are back
    }
    Endpoint* ep = slot.endpoint;
    if (ep->failure == UCS_OK) {
        // The first failure; the flushed work requests that follow say nothing new.
        // If the peer is gone, the error handler decides what that means; UCP always has one.
        auto level = err_handler != nullptr && status == UCS_ERR_ENDPOINT_TIMEOUT
                         ? abi::LogLevel::diag
                         : abi::LogLevel::error;
        abi::log_message(level, __FILE__, __LINE__, "a connection from %s failed: %s: %s",
                         device_name(device, port).c_str(), ibv_wc_status_str(wc.status),
                         verbs::completion_cause(wc.status));
        if (wc.status == IBV_WC_RETRY_EXC_ERR) {
            handshake->peer_failed(ep->peer.incarnation);
        }
        ep->fail(status);
    }
    handle_sent_slow(*ep, wc.wr_id, status);
}

// ---- windows and accepted connections
WindowCredit* Iface::find_window_credit(uint32_t qpn)
{
    auto found = window_credits.find(qpn);
    if (found == window_credits.end()) {
        take_handshake_events(); // it may just have been accepted
        found = window_credits.find(qpn);
    }
    return found != window_credits.end() ? &found->second : nullptr;
}

void Iface::handle_control(const ibv_wc& wc, uint32_t immediate)
{
    if (immediate & kWindowGrant) {
        if (auto found = endpoint_by_qpn.find(wc.qp_num); found != endpoint_by_qpn.end()) {
            found->second->window += found->second->half_window_mask + 1;
        }
        return;
    }
    if (WindowCredit* credit = find_window_credit(wc.qp_num); credit != nullptr) {
        ++credit->due;
        grant(*credit);
    }
}

void Iface::grant(WindowCredit& credit)
{
    // A peer has at most two open requests, one for each half of its window, so the send queue has
    // room for them.
    while (credit.due > 0 && !credit.failed) {
        if (tx_available <= -static_cast<int>(kGrantRoom)) {
            waiting_credits.push_back(&credit); // the next completion of a grant makes room
            return;
        }
        ibv_send_wr wr{};
        wr.wr_id = grant_wr_id(credit);
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = htonl(kWindowGrant);
        ibv_send_wr* refused;
        if (int error = post_at_once(credit.qp, &wr, &refused); error != 0) {
            gdr_log(error, "ibv_post_send of a window grant failed: %s",
                    verbs::errno_text(error).c_str());
            credit.failed = true;
            handshake->accepted_failed(credit.name);
            return;
        }
        --credit.due;
        ++credit.in_flight;
        --tx_available;
    }
}

void Iface::handle_grant_sent(uint64_t wr_id, ibv_wc_status status)
{
    auto found = window_credits.find(static_cast<uint32_t>(wr_id >> kGenerationShift));
    if (found == window_credits.end()) {
        return; // gone, its credits are back
    }
    WindowCredit& credit = found->second;
    --credit.in_flight;
    ++tx_available;
    if (status != IBV_WC_SUCCESS && !credit.failed) {
        credit.failed = true;
        gdr_log(diag, "a peer could not be granted a window: %s: %s", ibv_wc_status_str(status),
                verbs::completion_cause(status));
        handshake->accepted_failed(credit.name);
    }
    grant_next();
}

void Iface::grant_next()
{
    for (WindowCredit* credit : std::exchange(waiting_credits, {})) {
        grant(*credit);
    }
}

void Iface::forget_window_credit(uint32_t qpn)
{
    if (auto found = window_credits.find(qpn); found != window_credits.end()) {
        tx_available += static_cast<int>(found->second.in_flight);
        std::erase(waiting_credits, &found->second);
        window_credits.erase(found);
        grant_next();
    }
}

// ---- handshake events
unsigned Iface::handle_attention()
{
    attention.store(false);
    if (mem::RdmaWrites::instance().needed()) {
        poll_cq = flushed_poll(poll_cq);
    }
    unsigned count = 0;
    // Detach what is being handled: callbacks may wait for more completions, and so may what they
    // call.
    std::vector<ibv_wc> handled = std::exchange(spare_backlog, {});
    handled.swap(backlog);
    for (const ibv_wc& wc : handled) {
        handle(wc);
        ++count;
    }
    handled.clear();
    spare_backlog = std::move(handled);
    count += take_handshake_events();
    if (port_watch->broken()) {
        count += give_up();
    } else if (port_watch->outage() != 0) {
        count += look_at_port();
    }
    count += report_failures();
    finish_closing();
    if (!pending_endpoints.empty()) {
        dispatch_pending();
    }
    return count;
}

unsigned Iface::take_handshake_events()
{
    std::vector<HandshakeEvent> events = handshake->take_events();
    for (HandshakeEvent& event : events) {
        handle_event(event);
    }
    return static_cast<unsigned>(events.size());
}

void Iface::handle_event(HandshakeEvent& event)
{
    switch (event.kind) {
    case HandshakeEvent::Kind::connected:
        if (Endpoint* ep = find_endpoint(event.connection);
            ep != nullptr && ep->failure == UCS_OK) {
            ep->on_connected();
        }
        break;
    case HandshakeEvent::Kind::failed:
        if (Endpoint* ep = find_endpoint(event.connection);
            ep != nullptr && ep->failure == UCS_OK) {
            auto level = err_handler != nullptr ? abi::LogLevel::diag : abi::LogLevel::error;
            abi::log_message(level, __FILE__, __LINE__, "no connection from %s: %s",
                             device_name(device, port).c_str(), event.reason.c_str());
            ep->fail(event.status);
        }
        break;
    case HandshakeEvent::Kind::accepted:
        provider->adopt(event.qp, false);
        window_credits.insert_or_assign(event.qp->qp_num, WindowCredit{event.qp, event.name});
        receive_queues->grow(window_credits.size() * window);
        break;
    case HandshakeEvent::Kind::ending:
        handle_ending(std::move(event.ended));
        break;
    }
}

// The queue pair uses no more receives: what it received is in the CQ.
void Iface::handle_ending(verbs::QueuePair qp)
{
    const uint32_t number = qp->qp_num;
    destroy(std::move(qp));
    forget_window_credit(number);
    handshake->gone();
}

void Iface::destroy(verbs::QueuePair qp)
{
    save_completions();
    receive_queues->forget(qp.get());
    provider->forget(*qp);
}

// ---- endpoints that end
void Iface::save_completions()
{
    ibv_wc wc;
    while (poll_cq(cq, 1, &wc) > 0) {
        backlog.push_back(wc);
        attention.store(true, std::memory_order_relaxed);
    }
}

void Iface::finish(Endpoint& ep)
{
    if (ep.unsignalled() == 0 || (ep.failure == UCS_OK && ep.credits() <= 0)) {
        return; // a completion is on its way: handle_sent_end() comes back here
    }
    if (tx_available > 0) {
        (void)ep.post_flush_marker(); // if refused, the endpoint has failed and ends soon
    } else {
        closing_endpoints.push_back(ep.id);
        attention.store(true, std::memory_order_relaxed);
    }
}

void Iface::finish_closing()
{
    for (uint64_t id : std::exchange(closing_endpoints, {})) {
        if (Endpoint* ep = find_endpoint(id); ep != nullptr) {
            finish(*ep);
        }
    }
}

unsigned Iface::report_failures()
{
    std::vector<uint64_t> failed = std::exchange(failed_endpoints, {});
    for (uint64_t id : failed) {
        Endpoint* ep = find_endpoint(id);
        if (ep == nullptr) {
            continue;
        }
        if (ep->closing) {
            delete ep; // the user destroyed it long ago
            continue;
        }
        ucs_status_t handled = abi::handle_ep_error(this, ep, ep->failure);
        if (handled != UCS_OK && err_handler != nullptr) {
            gdr_log(error, "the failure of an endpoint was not handled: %s",
                    ucs_status_string(handled));
        }
    }
    return static_cast<unsigned>(failed.size());
}

// ---- sleeping
ucs_status_t Iface::arm()
{
    ibv_cq* event_cq;
    void* context;
    unsigned events = 0;
    while (ibv_get_cq_event(channel.get(), &event_cq, &context) == 0) {
        ++events;
    }
    if (events > 0) {
        ibv_ack_cq_events(cq, events);
    }
    uint64_t calls; // read it before the flag, which was set before it was written
    (void)!read(wakeup_fd, &calls, sizeof(calls));
    if (int error = provider->request_notification(cq, events); error != 0) {
        gdr_log(error, "ibv_req_notify_cq failed: %s", verbs::errno_text(error).c_str());
        return UCS_ERR_IO_ERROR;
    }
    // Completions from before the request raise no event.
    ibv_wc wc;
    if (poll_cq(cq, 1, &wc) > 0) {
        backlog.push_back(wc);
        attention.store(true, std::memory_order_relaxed);
    }
    return attention.load(std::memory_order_acquire) ? UCS_ERR_BUSY : UCS_OK;
}

ucs_status_t Iface::wait_for(const Endpoint& ep, uint16_t number)
{
    post_chain();
    for (;;) {
        ibv_wc wc;
        if (poll_cq(cq, 1, &wc) <= 0) {
            if (port_watch->broken()) {
                return UCS_ERR_IO_ERROR;
            }
            continue; // ends at the latest with the HCA's own timeout
        }
        backlog.push_back(wc);
        attention.store(true, std::memory_order_relaxed);
        if (same_endpoint(ep.last_wr_id, wc.wr_id) &&
            (wc.status != IBV_WC_SUCCESS || not_after(number, number_of(wc.wr_id)))) {
            return to_status(wc.status);
        }
    }
}

} // namespace gdr::rc
