// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Flush, fence and check.
#include "log/log.hpp"
#include "rc/endpoint.hpp"
#include "rc/ops/operations.hpp"

namespace gdr::rc {

ucs_status_t ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    if ((flags & UCT_FLUSH_FLAG_CANCEL) && ep.failure == UCS_OK) {
        ep.close_queue(UCS_ERR_CANCELED);
    }
    // A flush goes behind pending requests. A pending request that is being retried has its
    // resources back.
    if (ep.failure == UCS_OK && !ep.pending.empty() && ep.credits() <= 0) {
        return UCS_ERR_NO_RESOURCE;
    }
    const auto since_last = static_cast<SequenceNumber>(ep.posted() - ep.flushed);
    if (ep.failure == UCS_OK && ep.unsignalled() > 0) {
        if (!ep.can_post()) {
            return UCS_ERR_NO_RESOURCE;
        }
        if (ucs_status_t status = ep.post_flush_marker(); status != UCS_OK) {
            return status;
        }
    }
    ep.expect_flush_after(since_last);
    if (!ep.has_outstanding()) {
        return UCS_OK;
    }
    if (comp != nullptr) {
        ep.flush_waiters.push_back({ep.posted(), false, ep.read_modify_writes, ++ep.flushes, comp});
        ep.needs_attention();
    }
    return UCS_INPROGRESS;
}

// The fence goes behind posted work requests, because a pending request that is being retried may
// issue it, and behind the pending requests.
ucs_status_t ep_fence(uct_ep_h tl_ep, unsigned)
{
    Endpoint& ep = endpoint(tl_ep);
    ep.fence();
    if (!ep.pending.empty()) {
        ep.pending.fence();
    }
    return UCS_OK;
}

ucs_status_t ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t* comp)
{
    if (flags != 0 || comp != nullptr) {
        gdr_log(error, "ep_check is refused: there are no flags, and nothing is completed");
        return UCS_ERR_INVALID_PARAM;
    }
    Endpoint& ep = endpoint(tl_ep);
    ep.use(); // a peer answers only over a connection
    bool answer_is_due = ep.has_outstanding() && ep.unsignalled() == 0;
    if (ep.failure != UCS_OK || !ep.connected || answer_is_due) {
        return ep.failure;
    }
    // Held operations may be waiting for the very peer that is checked, so the marker is not held.
    ep.held = false;
    ucs_status_t status = ep.can_post() ? ep.post_flush_marker() : UCS_ERR_NO_RESOURCE;
    if (ep.holds()) {
        ep.hold();
    }
    return status;
}

ucs_status_t iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t* comp)
{
    if (comp != nullptr) {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t result = UCS_OK;
    rc_iface(iface).endpoints.for_each([&](Endpoint& ep) {
        if (ep.failure == UCS_OK && ep_flush(&ep.super, flags, nullptr) != UCS_OK) {
            result = UCS_INPROGRESS; // or the marker has no resources yet: the next call continues
        }
    });
    return result;
}

ucs_status_t iface_fence(uct_iface_h iface, unsigned flags)
{
    rc_iface(iface).endpoints.for_each([flags](Endpoint& ep) { ep_fence(&ep.super, flags); });
    return UCS_OK;
}

} // namespace gdr::rc
