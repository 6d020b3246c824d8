// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Requests that found no resources wait here and are retried, in order, when some return. While any
// wait, the endpoint offers no resources to new operations, so these cannot overtake them. The work
// requests of a retry are posted together.
#include "rc/endpoint.hpp"

#include <utility>

namespace gdr::rc {

void PendingQueue::push_back(uct_pending_req_t* request)
{
    link(request) = {nullptr, false};
    if (tail_ != nullptr) {
        link(tail_).next = request;
    } else {
        head_ = request;
    }
    tail_ = request;
}

void PendingQueue::push_front(uct_pending_req_t* request)
{
    link(request).next = head_;
    head_ = request;
    if (tail_ == nullptr) {
        tail_ = request;
    }
}

uct_pending_req_t* PendingQueue::pop_front()
{
    uct_pending_req_t* request = head_;
    head_ = link(request).next;
    if (head_ == nullptr) {
        tail_ = nullptr;
    }
    return request;
}

void PendingEndpoints::push_back(Endpoint* ep)
{
    ep->in_pending_list = true;
    ep->pending_before = tail_;
    ep->pending_after = nullptr;
    (tail_ != nullptr ? tail_->pending_after : head_) = ep;
    tail_ = ep;
    ++size_;
}

void PendingEndpoints::remove(Endpoint* ep)
{
    if (!std::exchange(ep->in_pending_list, false)) {
        return;
    }
    (ep->pending_before != nullptr ? ep->pending_before->pending_after : head_) = ep->pending_after;
    (ep->pending_after != nullptr ? ep->pending_after->pending_before : tail_) = ep->pending_before;
    --size_;
}

// An endpoint that is not connected has no resources: it is added when it is connected or has
// failed.
void Iface::add_pending(Endpoint* ep)
{
    bool may_go_on = ep->connected || ep->failure != UCS_OK;
    if (may_go_on && !ep->pending.empty() && !ep->in_pending_list) {
        pending_endpoints.push_back(ep);
    }
}

void Iface::dispatch_pending()
{
    post_send = PostChain::collect;
    try_pending_again();
    post_send = post_at_once;
    post_chain();
}

void Iface::try_pending_again()
{
    // Endpoints that still wait afterwards go to the end, so that each gets its turn when shared
    // resources are scarce.
    PendingEndpoints& list = pending_endpoints;
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
            ep = find_endpoint(id); // the request may have destroyed it
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
    iface.add_pending(&ep);
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
