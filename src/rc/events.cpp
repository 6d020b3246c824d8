// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/events.hpp"

#include "log/log.hpp"
#include "rc/endpoint.hpp"
#include "rc/pending.hpp"
#include "rc/progress.hpp"

#include <utility>
#include <vector>

namespace gdr::rc {
namespace {

// The queue pair uses no more receives: what it received is in the CQ.
void handle_ending(Iface& iface, verbs::QueuePair qp)
{
    const uint32_t number = qp->qp_num;
    iface.destroy(std::move(qp));
    iface.window_credits->forget(number);
    iface.handshake->gone();
}

void handle_event(Iface& iface, HandshakeEvent& event)
{
    switch (event.kind) {
    case HandshakeEvent::Kind::connected:
        if (Endpoint* ep = iface.endpoints.find(event.connection);
            ep != nullptr && ep->failure == UCS_OK) {
            ep->on_connected();
        }
        break;
    case HandshakeEvent::Kind::failed:
        if (Endpoint* ep = iface.endpoints.find(event.connection);
            ep != nullptr && ep->failure == UCS_OK) {
            auto level = iface.err_handler != nullptr ? log::Level::diag : log::Level::error;
            log::message(level, __FILE__, __LINE__, "no connection from %s: %s",
                         ep->ports().c_str(), event.reason.c_str());
            ep->fail(event.status);
        }
        break;
    case HandshakeEvent::Kind::accepted:
        iface.provider->adopt(event.qp, false);
        iface.window_credits->add(event.qp, event.name);
        iface.receive_queues->grow(iface.window_credits->size() * iface.limits.window());
        break;
    case HandshakeEvent::Kind::ending:
        handle_ending(iface, std::move(event.ended));
        break;
    }
}

unsigned take_handshake_events(Iface& iface)
{
    std::vector<HandshakeEvent> events = iface.handshake->take_events();
    for (HandshakeEvent& event : events) {
        handle_event(iface, event);
    }
    return static_cast<unsigned>(events.size());
}

// ---- endpoints that end
void signal_closing(Iface& iface)
{
    for (uint64_t id : iface.endpoint_tasks.take_closing()) {
        if (Endpoint* ep = iface.endpoints.find(id); ep != nullptr) {
            ep->signal_last();
        }
    }
}

unsigned report_failures(Iface& iface)
{
    const std::vector<uint64_t> failed = iface.endpoint_tasks.take_failed();
    for (uint64_t id : failed) {
        Endpoint* ep = iface.endpoints.find(id);
        if (ep == nullptr) {
            continue;
        }
        if (ep->closing) {
            delete ep; // the user destroyed it long ago
            continue;
        }
        abi::handle_ep_error(&iface, ep, ep->failure);
    }
    return static_cast<unsigned>(failed.size());
}

} // namespace

unsigned handle_attention(Iface& iface)
{
    iface.attention.given();
    if (mem::RdmaWrites::instance().needed()) {
        if (iface.data_trace) {
            iface.data_trace->flush_gpu_writes();
        } else {
            iface.completions.flush_gpu_writes();
        }
    }
    // Callbacks may wait for more completions, and so may what they call.
    unsigned count = iface.completions.handle_saved(
        [&iface](const ibv_wc& wc) { handle_completion(iface, wc); });
    count += take_handshake_events(iface);
    count += iface.outage->handle(iface);
    count += report_failures(iface);
    signal_closing(iface);
    if (!iface.pending_endpoints.empty()) {
        dispatch_pending(iface);
    }
    return count;
}

WindowCredit* find_window_credit(Iface& iface, uint32_t qpn)
{
    WindowCredit* credit = iface.window_credits->find(qpn);
    if (credit == nullptr) {
        take_handshake_events(iface);
        credit = iface.window_credits->find(qpn);
    }
    return credit;
}

} // namespace gdr::rc
