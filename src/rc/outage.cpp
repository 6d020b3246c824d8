// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ends work that the HCA does not end. While a port is down the HCA's own retries should end it,
// but Soft-RoCE (Linux 6.1) can forget a queue pair for ever if its packet finds no route while a
// retry is due. So work that outlasts the retries is ended here. If the HCA reports that it or a
// shared queue is broken, all work is ended.
#include "abi/host.hpp"
#include "rc/endpoint.hpp"
#include "rc/memory_domain.hpp"

#include <utility>

namespace gdr::rc {
namespace {

constexpr double kPatience = 1.5; // times the duration of the HCA's own retries

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
    // Completions of the HCA count, however late they are polled.
    unsigned count = 0;
    for (ibv_wc wc; poll_cq(cq, 1, &wc) > 0; ++count) {
        handle(wc);
    }
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
        // Work posted during the outage must complete or fail. Unsignalled work from before may
        // have arrived long ago: an idle connection survives an outage.
        bool in_outage = !first && ep->posted() != ep->seen.posted;
        if (in_outage && ep->unsignalled() > 0 && ep->can_post() &&
            ep->post_flush_marker() != UCS_OK) {
            continue;
        }
        ep->seen.posted = ep->posted();
        ep->seen.awaited = static_cast<SequenceNumber>(ep->posted() - ep->unsignalled());
    }
    outage = present;
    next_look = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience);
    return count;
}

unsigned Iface::give_up()
{
    if (std::exchange(given_up, true)) {
        return 0;
    }
    handshake->give_up();
    unsigned count = 0;
    for (size_t i = 0; i < slots.size(); ++i) { // callbacks may create and destroy endpoints
        Endpoint* ep = slots[i].endpoint;
        if (ep == nullptr || (ep->failure != UCS_OK && !ep->has_outstanding())) {
            continue;
        }
        ++count;
        if (ep->completing()) { // its own callback is running, and the caller still counts
            given_up = false;
            attention.store(true, std::memory_order_relaxed);
            continue;
        }
        const bool goes = ep->failure != UCS_OK && ep->closing;
        ep->abandon(UCS_ERR_IO_ERROR);
        if (goes) { // it was to be deleted at its completions
            failed_endpoints.push_back(ep->id);
        }
    }
    return count;
}

} // namespace gdr::rc
