// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/outage.hpp"

#include "log/log.hpp"
#include "rc/endpoint.hpp"
#include "rc/progress.hpp"

#include <utility>

namespace gdr::rc {
namespace {

constexpr double kPatience = 1.5; // times the duration of the HCA's own retries

} // namespace

unsigned Outage::handle(Iface& iface)
{
    if (watch_.broken()) {
        return give_up(iface);
    }
    return watch_.outage() != 0 ? look_at_port(iface) : 0;
}

unsigned Outage::look_at_port(Iface& iface)
{
    auto now = std::chrono::steady_clock::now();
    unsigned present = watch_.outage();
    bool first = handled_ != present;
    if (!first && now < next_look_) {
        return 0;
    }
    const std::chrono::duration<double> patience(kPatience * retries_last(iface.settings));
    // Completions of the HCA count, however late they are polled.
    unsigned count = 0;
    for (ibv_wc wc; iface.completions.poll(1, &wc) > 0; ++count) {
        handle_completion(iface, wc);
    }
    iface.endpoints.for_each([&](Endpoint& ep) {
        if (ep.failure != UCS_OK) {
            return;
        }
        if (!first && !not_after(ep.seen.awaited, ep.completed)) {
            gdr_log(error,
                    "a connection from %s failed: the port is down, and the HCA has not ended what "
                    "was posted more than %.2g s ago",
                    ep.ports().c_str(), patience.count());
            iface.handshake->peer_failed(ep.peer.incarnation);
            ep.fail(UCS_ERR_ENDPOINT_TIMEOUT);
            return;
        }
        // Work posted during the outage must complete or fail. Unsignalled work from before may
        // have arrived long ago: an idle connection survives an outage.
        bool in_outage = !first && ep.posted() != ep.seen.posted;
        if (in_outage && ep.unsignalled() > 0 && ep.can_post() &&
            ep.post_flush_marker() != UCS_OK) {
            return;
        }
        ep.seen.posted = ep.posted();
        ep.seen.awaited = static_cast<SequenceNumber>(ep.posted() - ep.unsignalled());
    });
    handled_ = present;
    next_look_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience);
    return count;
}

unsigned Outage::give_up(Iface& iface)
{
    if (std::exchange(given_up_, true)) {
        return 0;
    }
    iface.handshake->give_up();
    unsigned count = 0;
    iface.endpoints.for_each([&](Endpoint& ep) {
        if (ep.failure != UCS_OK && !ep.has_outstanding()) {
            return;
        }
        ++count;
        if (ep.completing()) { // its own callback is running, and the caller still counts
            given_up_ = false;
            iface.attention.want();
            return;
        }
        const bool goes = ep.failure != UCS_OK && ep.closing;
        ep.abandon(UCS_ERR_IO_ERROR);
        if (goes) { // it was to be deleted at its completions
            iface.endpoint_tasks.report(ep.id);
        }
    });
    return count;
}

} // namespace gdr::rc
