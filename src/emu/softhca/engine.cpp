// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who runs a send queue and when: posting, receivers that became ready, the agent; see engine.hpp.
#include "emu/softhca/engine.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/copier.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/send_queue.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace softhca {

bool is_port(const Arena& arena, unsigned device, std::uint16_t lid, const std::uint8_t* gid)
{
    if (lid != 0 && lid == arena.port_lid[device] && !profile_of(device).grh_required) {
        return true;
    }
    for (const auto& own : arena.gids[device]) {
        static constexpr std::uint8_t none[16] = {};
        if (std::memcmp(own, gid, 16) == 0 && std::memcmp(own, none, 16) != 0) {
            return true;
        }
    }
    return false;
}

namespace {

// Has the CQ's consumer look after a QP with deferred WRITEs; the caller holds the QP's lock.
void list_deferring(Cq& cq, std::uint32_t qp_index, QpShared& qp)
{
    if (!qp.deferring) {
        qp.deferring = true;
        const std::lock_guard<PrivateLock> guard(cq.deferring_lock);
        cq.deferring.push_back(qp_index);
        cq.is_deferring.store(true, std::memory_order_relaxed);
    }
}

} // namespace

int post_send_list(Process& self, Qp& object, ibv_send_wr* wr, ibv_send_wr** bad, bool all_or_none)
{
    Arena& arena = self.arena();
    QpShared& qp = arena.qp(object.index);
    SendQueue queue(self, arena, qp, Role::poster);
    queue.posted();
    const SharedGuard guard(qp.lock, self.token());
    ++qp.doorbells;
    if (queue.has_executed()) {
        queue.retire();
    }
    const auto refuses = [&](const ibv_send_wr& request, std::uint32_t before) {
        if (qp.state.load(std::memory_order_acquire) < IBV_QPS_RTS) {
            return EINVAL;
        }
        const bool full =
            qp.posted + before - qp.reclaimed.load(std::memory_order_relaxed) >= qp.max_send_wr;
        const int error = check(object.base, qp, request);
        return error != 0 ? error : full ? ENOMEM : 0;
    };
    if (all_or_none) {
        std::uint32_t before = 0;
        for (ibv_send_wr* request = wr; request != nullptr; request = request->next) {
            if (const int error = refuses(*request, before++)) {
                *bad = request;
                return error;
            }
        }
    }
    for (; wr != nullptr; wr = wr->next) {
        if (const int error = refuses(*wr, 0)) {
            *bad = wr;
            return error;
        }
        const std::uint8_t state = qp.state.load(std::memory_order_acquire);
        WorkRequest request(*wr, object.base.qp_type, qp.posted++);
        if (object.fault_number != 0) {
            const Injected injected = inject(self, qp, object.fault_number);
            request.injected_status = injected.status;
            request.delay_us = injected.delay_us;
            request.cut_off = injected.cut_off;
        }
        if (!qp.copying && (state == IBV_QPS_ERR || state == IBV_QPS_SQE)) {
            queue.complete(request, IBV_WC_WR_FLUSH_ERR);
            continue;
        }
        if (qp.sq_next != qp.sq_tail || state == IBV_QPS_SQD) {
            queue.enqueue(request);
            continue;
        }
        const Outcome outcome = queue.execute(request);
        if (outcome.deferred) {
            queue.enqueue_executed(request, outcome.deferred);
            list_deferring(object_of<Cq>(object.base.send_cq), object.index, qp);
        } else if (outcome.wait_for == Wait::none && outcome.status == IBV_WC_SUCCESS &&
                   queue.has_executed()) {
            queue.enqueue_executed(request, std::nullopt);
        } else if (outcome.wait_for == Wait::none) {
            queue.finish(request, outcome.status);
        } else if (outcome.wait_for == Wait::copier) {
            queue.enqueue(request);
            queue.leave_to_copier();
        } else if (queue.is_over(outcome.wait_for)) { // only with no RNR retry at all
            queue.finish(request, IBV_WC_RNR_RETRY_EXC_ERR);
        } else {
            queue.enqueue(request);
        }
    }
    return 0;
}

void run_send_queue(Process& self, Arena& arena, std::uint32_t qp_index)
{
    QpShared& qp = arena.qp(qp_index);
    const SharedGuard guard(qp.lock, self.token());
    const std::uint8_t state = qp.state.load();
    if (qp.number != 0 && (state == IBV_QPS_RTS || state == IBV_QPS_ERR)) {
        SendQueue(self, arena, qp).run();
    }
}

void run_copies(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qp(qp_index);
    const SharedGuard guard(qp.lock, self.token());
    const std::uint8_t state = qp.state.load();
    if (qp.number != 0 && (state == IBV_QPS_RTS || state == IBV_QPS_ERR)) {
        SendQueue(self, self.arena(), qp, Role::copier).run();
    }
}

bool run_watched(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qp(qp_index);
    run_send_queue(self, self.arena(), qp_index);
    const SharedGuard guard(qp.lock, self.token());
    if (qp.number == 0) {
        qp.watched = false;
        return false;
    }
    SendQueue queue(self, self.arena(), qp);
    if (queue.has_executed()) {
        // One tick is time enough for a responder that polls.
        if (qp.patience == 0) {
            queue.settle();
        }
        qp.patience = 0;
    }
    // Watched a while longer, as waking the agent for each of many WRITEs would be a system call.
    constexpr std::uint8_t idle_limit = 100;
    qp.idle_ticks = qp.sq_head != qp.sq_tail ? 0 : qp.idle_ticks + 1;
    qp.watched = qp.idle_ticks < idle_limit;
    return qp.watched;
}

void settle_send_queue(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qp(qp_index);
    while (qp.copying && self.copier().is_running(qp_index)) {
        qp.lock.unlock();
        sched_yield();
        qp.lock.lock(self.token());
    }
    SendQueue queue(self, self.arena(), qp);
    if (queue.has_executed()) {
        queue.settle();
    }
}

void retire_deferred(Process& self, Cq& cq, bool now)
{
    // A QP's lock is taken before the list's, so the list is taken apart in batches.
    std::uint32_t batch[64];
    std::size_t count, kept = 0;
    {
        const std::lock_guard<PrivateLock> guard(cq.deferring_lock);
        count = std::min(cq.deferring.size(), std::size(batch));
        std::copy(cq.deferring.end() - static_cast<std::ptrdiff_t>(count), cq.deferring.end(),
                  batch);
        cq.deferring.resize(cq.deferring.size() - count);
    }
    for (std::size_t i = 0; i < count; ++i) {
        QpShared& qp = self.arena().qp(batch[i]);
        const SharedGuard guard(qp.lock, self.token());
        if (qp.number == 0) {
            continue;
        }
        SendQueue queue(self, self.arena(), qp);
        queue.retire();
        if (queue.has_executed() && (now || qp.patience-- == 0)) {
            queue.settle();
        }
        qp.deferring = queue.has_executed();
        if (qp.deferring) {
            batch[kept++] = batch[i];
        }
    }
    const std::lock_guard<PrivateLock> guard(cq.deferring_lock);
    cq.deferring.insert(cq.deferring.begin(), batch, batch + kept);
    cq.is_deferring.store(!cq.deferring.empty(), std::memory_order_relaxed);
}

void wake_peer(Process& self, std::uint32_t qp_index)
{
    const QpShared& qp = self.arena().qp(qp_index);
    const auto address = self.find_qp(qp.destination);
    if (!address || !self.alive(address->token)) {
        return;
    }
    Arena* arena = self.arena_of(address->token);
    if (arena != nullptr && arena->qp(address->index).destination == qp.number) {
        run_send_queue(self, *arena, address->index);
    }
}

void serve_waiting_peers(Process& self, std::uint32_t recv_queue, const std::uint32_t* qps,
                         std::size_t count)
{
    RqShared& queue = self.arena().recv_queue(recv_queue);
    {
        const SharedGuard guard(queue.lock, self.token());
        queue.peers_waiting = 0;
    }
    for (std::size_t i = 0; i < count; ++i) {
        bool waiting;
        {
            const SharedGuard guard(queue.lock, self.token());
            waiting = std::exchange(self.arena().qp(qps[i]).peer_waiting, false);
        }
        if (waiting) {
            wake_peer(self, qps[i]);
        }
    }
}

void fail_qp(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qp(qp_index);
    const SharedGuard guard(qp.lock, self.token());
    SendQueue(self, self.arena(), qp).fail();
}

} // namespace softhca
