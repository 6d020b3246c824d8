// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The order of a send queue: what waits, what is executed but not yet complete, and how it ends
// when a request fails; see send_queue.hpp.
#include "emu/softhca/send_queue.hpp"

#include "emu/softhca/copier.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/liveness.hpp"

#include <algorithm>

namespace softhca {
namespace {

// The time of an RNR NAK timer code, InfiniBand specification 9.7.5.2.8.
std::uint64_t rnr_timer_ns(unsigned code)
{
    static constexpr std::uint32_t units_of_10us[32] = {
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return std::uint64_t{units_of_10us[code & 31]} * 10'000;
}

// After a WRITE that its responder left lying: this many go directly before another is deferred.
constexpr std::uint32_t kDirectWrites = 256;
// How often the requester polls before it applies a deferred WRITE itself.
constexpr std::uint32_t kPatience = 400;

} // namespace

void SendQueue::count(const WorkRequest& wr)
{
    switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        ++qp_.counts[0];
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        ++qp_.counts[1];
        break;
    case IBV_WR_RDMA_READ:
        ++qp_.counts[2];
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ++qp_.counts[3];
        break;
    default:
        break;
    }
    qp_.bytes += wr.length;
}

void SendQueue::complete(const WorkRequest& wr, ibv_wc_status status)
{
    qp_.send_ready = std::max(qp_.send_ready, wire_.ready()); // in order
    if (status == IBV_WC_SUCCESS) {
        count(wr);
        if ((wr.send_flags & IBV_SEND_SIGNALED) == 0 && !qp_.sig_all) {
            return;
        }
        ++qp_.signaled;
    }
    push_cqe(self_, arena_, qp_.send_cq, status != IBV_WC_SUCCESS, qp_.send_ready, [&](Cqe& entry) {
        entry.byte_length = wr.length;
        entry.id = wr.wr_id;
        entry.wqe.store(wr.counter, std::memory_order_relaxed);
        entry.qp = index();
        entry.slot = kLanded;
        entry.kind = CqeKind::send;
        entry.status = static_cast<std::uint8_t>(status);
        entry.opcode = completion_opcode(wr.opcode);
        entry.flags = 0;
    });
}

void SendQueue::fail()
{
    settle();
    set_error_state(self_, arena_, qp_);
    if (qp_.copying) {
        return; // the copier flushes when it is back
    }
    for (check_counts(); qp_.sq_head != qp_.sq_tail; check_counts()) {
        const WorkRequest wr(queued(qp_.sq_head));
        qp_.sq_next = ++qp_.sq_head;
        complete(wr, IBV_WC_WR_FLUSH_ERR);
    }
    qp_.wait = Wait::none;
}

void SendQueue::enqueue(const WorkRequest& wr)
{
    SendWqe& wqe = queued(qp_.sq_tail);
    wr.store(wqe);
    ++qp_.sq_tail;
    if (own_ && !qp_.watched) {
        qp_.watched = true;
        self_.agent().watch(index());
    }
}

void SendQueue::enqueue_executed(const WorkRequest& wr, std::optional<std::uint64_t> position)
{
    if (!has_executed()) {
        qp_.patience = kPatience;
    }
    SendWqe& wqe = queued(qp_.sq_tail);
    enqueue(wr);
    wqe.deferred = position.has_value();
    wqe.position = position.value_or(0);
    wqe.write_number = qp_.writes_issued;
    qp_.sq_next = qp_.sq_tail;
}

void SendQueue::retire()
{
    while (has_executed()) {
        const SendWqe& wqe = queued(qp_.sq_head);
        const QpShared* peer = deferred_peer();
        if (peer == nullptr || !is_applied(*peer, wqe.write_number)) {
            return;
        }
        ++qp_.sq_head;
        qp_.patience = kPatience;
        complete(WorkRequest(wqe), IBV_WC_SUCCESS);
    }
}

void SendQueue::settle()
{
    bool stolen = false;
    while (has_executed()) {
        const WorkRequest wr(queued(qp_.sq_head));
        const SendWqe& wqe = queued(qp_.sq_head);
        Settled settled = Settled::applied;
        QpShared* peer = deferred_peer();
        if (peer == nullptr) {
            settled = Settled::unreachable;
        } else if (wqe.deferred && !is_applied(*peer, wqe.write_number)) {
            stolen = true;
            settled = settle_write(self_, *deferred_arena(), *peer, wqe.position, wqe.write_number);
        }
        ++qp_.sq_head;
        if (settled != Settled::applied) {
            qp_.sq_next = qp_.sq_head;
            finish(wr, settled == Settled::refused ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR);
            return;
        }
        complete(wr, IBV_WC_SUCCESS);
    }
    if (stolen) {
        qp_.direct_writes = kDirectWrites;
    }
}

void SendQueue::leave_to_copier()
{
    if (own_) {
        self_.copier().start_running();
    }
    call_copier(arena_, index());
}

Outcome SendQueue::execute_unlocked(const WorkRequest& wr)
{
    Outcome outcome = Outcome::wait(Wait::none);
    qp_.copying = true;
    qp_.lock.unlock();
    {
        const DirectAccess access(self_, arena_);
        outcome = execute(wr);
    }
    qp_.lock.lock(self_.token());
    qp_.copying = false;
    return outcome;
}

void SendQueue::run()
{
    while (!qp_.copying) {
        retire();
        check_counts();
        if (qp_.sq_next == qp_.sq_tail) {
            return;
        }
        settle();
        if (qp_.sq_next == qp_.sq_tail) {
            return;
        }
        const WorkRequest wr(queued(qp_.sq_head));
        const auto is_failed = [this] { return qp_.state.load() == IBV_QPS_ERR; };
        Outcome outcome = Outcome::finished(IBV_WC_WR_FLUSH_ERR);
        if (!is_failed()) {
            // A binding copies nothing, and waits for all who have access.
            const bool copies =
                role_ == Role::copier && wr.opcode != IBV_WR_BIND_MW && wr.opcode != kConnect;
            outcome = copies ? execute_unlocked(wr) : execute(wr);
        }
        if (outcome.wait_for == Wait::copier) {
            leave_to_copier();
            return;
        }
        if (outcome.wait_for != Wait::none && is_failed()) {
            continue; // meanwhile, while the lock was not held
        }
        if (outcome.wait_for != Wait::none) {
            if (!is_over(outcome.wait_for)) {
                return;
            }
            outcome =
                Outcome::finished(outcome.wait_for == Wait::unreachable ? IBV_WC_RETRY_EXC_ERR
                                                                        : IBV_WC_RNR_RETRY_EXC_ERR);
        }
        ++qp_.sq_head;
        qp_.sq_next = qp_.sq_head;
        finish(wr, outcome.status);
    }
}

void SendQueue::finish(const WorkRequest& wr, ibv_wc_status status)
{
    qp_.wait = Wait::none;
    if (status != IBV_WC_SUCCESS && has_executed()) {
        settle(); // their completions come before this one
    }
    complete(wr, status);
    if (status != IBV_WC_SUCCESS) {
        if (is_reliable()) {
            fail();
        } else if (qp_.state.load() == IBV_QPS_RTS) {
            qp_.state.store(IBV_QPS_SQE);
        }
    }
}

bool SendQueue::is_over(Wait reason)
{
    const std::uint64_t now = now_ns();
    if (qp_.wait != reason) {
        qp_.wait = reason;
        qp_.waits_since = now;
        qp_.deadline = 0;
        if (reason == Wait::unreachable) {
            if (qp_.timeout != 0) { // 0: wait for ever
                qp_.deadline =
                    now + (std::uint64_t{4096} << (qp_.timeout & 31)) * (qp_.retry_count + 1u);
            }
        } else if (is_reliable() && qp_.rnr_retry != 7) { // 7: without end
            qp_.deadline = now + rnr_timer_ns(peer_->min_rnr_timer) * qp_.rnr_retry;
        }
    }
    return qp_.deadline != 0 && now >= qp_.deadline &&
           (reason == Wait::unreachable || !may_be_unseen(looked_, qp_));
}

} // namespace softhca
