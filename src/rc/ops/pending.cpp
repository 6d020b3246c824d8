// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pending requests (rc/pending.hpp): added and purged.
#include "rc/endpoint.hpp"
#include "rc/ops/operations.hpp"

namespace gdr::rc {

ucs_status_t ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t* request, unsigned)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (ep.failure != UCS_OK) {
        return UCS_ERR_BUSY; // a retry shows the error
    }
    if (ep.can_post() && ep.window > 0 && iface.buffers->any() && !ep.needs_several) {
        (void)ep.insists_on_short();
        return UCS_ERR_BUSY; // resources have returned meanwhile
    }
    ep.use();
    ep.pending.push_back(request);
    ep.hold();
    iface.pending_endpoints.add(&ep);
    return UCS_OK;
}

void ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t callback, void* arg)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    bool fenced = false; // later operations come after those fences too
    while (!ep.pending.empty()) {
        uct_pending_req_t* request = ep.pending.pop_front();
        fenced = fenced || PendingQueue::fence_follows(request);
        callback(request, arg);
    }
    iface.pending_endpoints.remove(&ep);
    ep.let_go();
    if (fenced) {
        ep.fence();
    }
}

} // namespace gdr::rc
