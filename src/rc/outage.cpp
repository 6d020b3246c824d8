// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Work that a port that is down should have ended. An HCA's own retries end it; but Soft-RoCE
// (Linux 6.1) can forget a queue pair whose packet finds no route while a retry is due, for ever.
// What outlasts the retries is ended here.
#include "abi/host.hpp"
#include "rc/endpoint.hpp"
#include "rc/memory_domain.hpp"

namespace gdr::rc {
namespace {

constexpr double kPatience = 1.5; // times the HCA's own retries

} // namespace

unsigned Iface::look_at_port()
{
    auto now = std::chrono::steady_clock::now();
    unsigned present = port_watch->outage();
    bool first = outage != present;
    if (!first && now < next_look) {
        return 0;
    }
    const std::chrono::duration<double> patience(kPatience * retries_last(settings));
    // What the HCA has ended is not forgotten, however late it is polled.
    unsigned count = 0;
    for (ibv_wc wc; ibv_poll_cq(cq, 1, &wc) > 0; ++count) {
        handle(wc);
    }
    receives->refill();
    for (const Slot& slot : slots) {
        Endpoint* ep = slot.endpoint;
        if (ep == nullptr || ep->failure != UCS_OK) {
            continue;
        }
        if (!first && !not_after(ep->seen.awaited, ep->completed)) {
            gdr_log(error,
                    "a connection from %s failed: the port is down, and the HCA has not ended what "
                    "was posted more than %.2g s ago",
                    device_name(device, port).c_str(), patience.count());
            handshake->peer_failed(ep->peer.incarnation);
            ep->fail(UCS_ERR_ENDPOINT_TIMEOUT);
            continue;
        }
        // What was posted in the outage shall tell its fate. From before it, what asked for no
        // completion may have arrived long ago: an idle connection outlives an outage.
        bool in_outage = !first && ep->posted != ep->seen.posted;
        if (in_outage && ep->unsignalled > 0 && ep->can_post() &&
            ep->post_flush_marker() != UCS_OK) {
            continue;
        }
        ep->seen.posted = ep->posted;
        ep->seen.awaited = static_cast<SequenceNumber>(ep->posted - ep->unsignalled);
    }
    outage = present;
    next_look = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience);
    return count;
}

} // namespace gdr::rc
