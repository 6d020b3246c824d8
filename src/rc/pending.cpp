// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Retries pending requests. The work requests of a retry are posted together.
#include "rc/pending.hpp"

#include "rc/endpoint.hpp"

namespace gdr::rc {
namespace {

void try_again(Iface& iface)
{
    // Endpoints that still wait afterwards go to the end, so that each gets its turn when shared
    // resources are scarce.
    PendingEndpoints& list = iface.pending_endpoints;
    for (size_t remaining = list.size(); remaining > 0 && !list.empty(); --remaining) {
        Endpoint* ep = list.front();
        uint64_t id = ep->id;
        ep->held = ep->fenced;
        bool blocked = false;
        while (!ep->pending.empty() && !blocked) {
            uct_pending_req_t* request = ep->pending.pop_front();
            bool fence_follows = PendingQueue::fence_follows(request);
            if (!ep->refused_short.insisted) {
                ep->refused_short.payload = nullptr;
            }
            ucs_status_t status = request->func(request);
            ep = iface.endpoints.find(id); // the request may have destroyed it
            if (ep == nullptr) {
                break;
            }
            if (status != UCS_OK) {
                ep->pending.push_front(request);
                // In progress: a part is posted, more follows.
                blocked = status != UCS_INPROGRESS && !(ep->can_post() && ep->insists_on_short());
            } else if (fence_follows) {
                ep->fence();
            }
        }
        if (ep == nullptr || !ep->in_pending_list) {
            continue; // destroyed or purged, and thus out of the list already
        }
        list.remove(ep);
        if (!ep->pending.empty()) {
            ep->hold();
            list.push_back(ep);
        }
    }
}

} // namespace

void dispatch_pending(Iface& iface)
{
    iface.poster.collect();
    try_again(iface);
    iface.poster.stop_collecting();
}

} // namespace gdr::rc
