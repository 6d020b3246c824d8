// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Requests that found no resources wait here and are tried again, in order, when some return. While
// any wait, the endpoint shows no resources to new operations, which so cannot overtake them.
#include "rc/endpoint.hpp"

#include <algorithm>
#include <utility>

namespace gdr::rc {

void PendingQueue::push_back(uct_pending_req_t* request)
{
    next(request) = nullptr;
    if (tail_ != nullptr) {
        next(tail_) = request;
    } else {
        head_ = request;
    }
    tail_ = request;
}

void PendingQueue::push_front(uct_pending_req_t* request)
{
    next(request) = head_;
    head_ = request;
    if (tail_ == nullptr) {
        tail_ = request;
    }
}

uct_pending_req_t* PendingQueue::pop_front()
{
    uct_pending_req_t* request = head_;
    head_ = next(request);
    if (head_ == nullptr) {
        tail_ = nullptr;
    }
    return request;
}

void Iface::add_pending(Endpoint* ep)
{
    if (!ep->in_pending_list) {
        ep->in_pending_list = true;
        pending_endpoints.push_back(ep);
    }
}

void Iface::dispatch_pending()
{
    // Endpoints that still wait afterwards go to the end: with scarce common resources each gets
    // its turn.
    std::vector<Endpoint*>& list = pending_endpoints;
    for (size_t remaining = list.size(); remaining > 0 && !list.empty(); --remaining) {
        Endpoint* ep = list.front();
        uint64_t id = ep->id;
        if (!ep->fenced) {
            ep->tx_available += std::exchange(ep->tx_reserved, 0);
        }
        bool blocked = false;
        while (ep != nullptr && !ep->pending.empty() && !blocked) {
            uct_pending_req_t* request = ep->pending.pop_front();
            ucs_status_t status = request->func(request);
            ep = find_endpoint(id); // the request may have ended it
            if (status != UCS_OK && ep != nullptr) {
                ep->pending.push_front(request);
                blocked =
                    status != UCS_INPROGRESS; // in progress: a part is posted, more is to come
            }
        }
        if (ep == nullptr || !ep->in_pending_list) {
            continue; // destroyed or purged, and so out of the list already
        }
        list.erase(std::find(list.begin(), list.end(), ep));
        if (ep->pending.empty()) {
            ep->in_pending_list = false;
        } else {
            ep->hold();
            list.push_back(ep);
        }
    }
}

ucs_status_t ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t* request, unsigned)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (ep.failure != UCS_OK) {
        return UCS_ERR_BUSY; // trying again tells the error
    }
    if (ep.can_post() && ep.window > 0 && iface.buffers->any()) {
        return UCS_ERR_BUSY; // resources returned meanwhile
    }
    ep.pending.push_back(request);
    ep.hold();
    iface.add_pending(&ep);
    return UCS_OK;
}

void ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t callback, void* arg)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    while (!ep.pending.empty()) {
        callback(ep.pending.pop_front(), arg);
    }
    if (ep.in_pending_list) {
        ep.in_pending_list = false;
        std::erase(iface.pending_endpoints, &ep);
        ep.let_go();
    }
}

} // namespace gdr::rc
