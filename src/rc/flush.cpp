// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion and order of what was posted: flush, fence, check, cancellation.
#include "rc/endpoint.hpp"

namespace gdr::rc {

// An RDMA WRITE of nothing: touches no memory, needs no key, completes after all before it.
ucs_status_t Endpoint::post_flush_marker()
{
    ibv_send_wr wr;
    wr.sg_list = nullptr;
    wr.num_sge = 0;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = 0;
    wr.wr.rdma.rkey = 0;
    return post(wr, IBV_SEND_SIGNALED);
}

void Endpoint::notify_flush_waiters(ucs_status_t status)
{
    // A waiter added by a completion called here comes later in the list or in the next round.
    for (size_t i = 0; i < flush_waiters.size();) {
        FlushWaiter& waiter = flush_waiters[i];
        if (!not_after(waiter.number, completed)) {
            ++i;
        } else if (read_modify_writes > 0 && has_outstanding()) {
            waiter.number = posted; // an emulated atomic goes on: wait for its next step
            ++i;
        } else {
            uct_completion_t* completion = waiter.completion;
            flush_waiters.erase(flush_waiters.begin() + static_cast<std::ptrdiff_t>(i));
            complete(completion, status);
        }
    }
}

ucs_status_t ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    if ((flags & UCT_FLUSH_FLAG_CANCEL) && ep.failure == UCS_OK) {
        ep.close_queue(UCS_ERR_CANCELED);
    }
    // Behind what waits already; the waiting request that is being tried again finds the endpoint's
    // resources returned.
    if (ep.failure == UCS_OK && !ep.pending.empty() && ep.tx_available == 0) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (!ep.has_outstanding()) {
        return UCS_OK;
    }
    if (ep.failure == UCS_OK && ep.unsignalled > 0) {
        if (!ep.can_post()) {
            return UCS_ERR_NO_RESOURCE;
        }
        if (ucs_status_t status = ep.post_flush_marker(); status != UCS_OK) {
            return status;
        }
    }
    if (comp != nullptr) {
        ep.flush_waiters.push_back({ep.posted, comp});
    }
    return UCS_INPROGRESS;
}

// RC keeps the order of writes and sends; only reads and atomics before the fence must be waited for.
ucs_status_t ep_fence(uct_ep_h ep, unsigned)
{
    endpoint(ep).next_flags = IBV_SEND_FENCE;
    return UCS_OK;
}

ucs_status_t ep_check(uct_ep_h tl_ep, unsigned, uct_completion_t*)
{
    Endpoint& ep = endpoint(tl_ep);
    if (ep.failure != UCS_OK || !ep.connected || ep.has_outstanding()) {
        return ep.failure; // the answer to what is under way will tell
    }
    return ep.can_post() ? ep.post_flush_marker() : UCS_ERR_NO_RESOURCE;
}

ucs_status_t ep_invalidate(uct_ep_h tl_ep)
{
    Endpoint& ep = endpoint(tl_ep);
    if (ep.failure == UCS_OK) {
        ep.fail(UCS_ERR_ENDPOINT_TIMEOUT);
    }
    return UCS_OK;
}

} // namespace gdr::rc
