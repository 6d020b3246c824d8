// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/pending_endpoints.hpp"

#include "rc/endpoint.hpp"

#include <utility>

namespace gdr::rc {

void PendingEndpoints::add(Endpoint* ep)
{
    const bool may_go_on = ep->connected || ep->failure != UCS_OK;
    if (may_go_on && !ep->pending.empty() && !ep->in_pending_list) {
        push_back(ep);
    }
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

} // namespace gdr::rc
