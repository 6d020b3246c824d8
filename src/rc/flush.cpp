// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion and order of posted operations: flush, fence, check, cancellation.
#include "abi/completion.hpp"
#include "abi/host.hpp"
#include "rc/endpoint.hpp"
#include "rc/read_modify_write.hpp"

#include <algorithm>
#include <utility>

namespace gdr::rc {

// An empty RDMA WRITE: touches no memory, needs no key, completes after everything before it.
ucs_status_t Endpoint::post_flush_marker()
{
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = nullptr;
    wr.num_sge = 0;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = 0;
    wr.wr.rdma.rkey = 0;
    return post_signalled(wr);
}

// Programs tend to flush after as many operations as the last time: a put, or the puts of an epoch.
// So the last of these is signalled, and the flush needs no marker.
void Endpoint::expect_flush_after(unsigned count)
{
    settle();
    flushed = posted();
    if (count > 0) {
        to_look = std::min(count, to_look);
    }
}

void Endpoint::notify_flush_waiters(ucs_status_t status)
{
    // A completion called here may add a waiter; it comes later in the list or in the next round.
    for (size_t i = 0; i < flush_waiters.size();) {
        FlushWaiter& waiter = flush_waiters[i];
        waiter.reached = waiter.reached || not_after(waiter.number, completed);
        if (!waiter.reached || waiter.atomics > 0) {
            ++i;
        } else {
            uct_completion_t* completion = waiter.completion;
            flush_waiters.erase(flush_waiters.begin() + static_cast<std::ptrdiff_t>(i));
            abi::complete(completion, status);
        }
    }
}

void Endpoint::finish_read_modify_write(const ReadModifyWrite& rmw)
{
    --read_modify_writes;
    awaited_read_modify_writes -= rmw.atomic.awaited();
    waiting_read_modify_writes -= rmw.waited;
    for (FlushWaiter& waiter : flush_waiters) {
        waiter.atomics -= static_cast<int>(waiter.flush - rmw.flushes) > 0;
    }
    if (read_modify_writes == 0) {
        fenced = false;
        let_go();
    }
}

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

// RC keeps writes and sends in order. Only reads and atomics before the fence must be waited for:
// the HCA does so, and we do if an atomic takes several work requests.
void Endpoint::fence()
{
    wait_for_reads();
    if (read_modify_writes > 0) {
        fenced = true;
        hold();
    }
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

ucs_status_t ep_invalidate(uct_ep_h tl_ep)
{
    Endpoint& ep = endpoint(tl_ep);
    if (ep.failure == UCS_OK) {
        ep.fail(UCS_ERR_ENDPOINT_TIMEOUT);
    }
    return UCS_OK;
}

} // namespace gdr::rc
