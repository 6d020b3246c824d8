// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Execution of reliable-connected work requests and the running of send queues, see engine.hpp.
#include "emu/softhca/engine.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/deferred.hpp"
#include "emu/softhca/liveness.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/receive.hpp"
#include "emu/softhca/ud.hpp"
#include "emu/softhca/work_request.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <time.h>

namespace softhca {
namespace {

std::uint64_t now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

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

bool is_connected(const QpShared& peer, const QpShared& qp)
{
    const std::uint8_t state = peer.state.load(std::memory_order_acquire);
    return peer.number == qp.destination && peer.destination == qp.number &&
           peer.type == IBV_QPT_RC && state >= IBV_QPS_RTR && state <= IBV_QPS_SQE;
}

// Runs one QP's send queue; the caller holds its lock.
class Engine {
  public:
    // Posting: WRITEs may be deferred.
    Engine(Process& self, Arena& arena, QpShared& qp, bool posting = false)
        : self_(self), arena_(arena), qp_(qp), own_(&arena == &self.arena()), posting_(posting)
    {
    }

    // Executes a work request that is at the head of the queue.
    Outcome execute(const WorkRequest& wr)
    {
        if (qp_.type == IBV_QPT_UD) {
            return execute_ud(self_, qp_, wr);
        }
        if (!find_peer()) {
            return Outcome::wait(Wait::unreachable);
        }
        switch (wr.opcode) {
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_IMM:
            return send(wr);
        case IBV_WR_RDMA_WRITE:
            return write(wr);
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return write_with_immediate(wr);
        case IBV_WR_RDMA_READ:
            return read(wr);
        default:
            return atomic(wr);
        }
    }

    // Publishes the completion of an executed work request.
    void complete(const WorkRequest& wr, ibv_wc_status status)
    {
        if (status == IBV_WC_SUCCESS) {
            const unsigned kind = wr.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM ? 1
                                  : wr.opcode <= IBV_WR_SEND_WITH_IMM     ? 0
                                  : wr.opcode == IBV_WR_RDMA_READ         ? 2
                                                                          : 3;
            ++qp_.counts[kind];
            qp_.bytes += wr.length;
            if ((wr.send_flags & IBV_SEND_SIGNALED) == 0 && !qp_.sig_all) {
                return;
            }
        }
        push_cqe(self_, arena_, qp_.send_cq, status != IBV_WC_SUCCESS, [&](Cqe& entry) {
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

    // Brings the QP into the error state after its current work request failed, or on request.
    void fail()
    {
        settle();
        set_error_state(self_, arena_, qp_);
        while (qp_.sq_head != qp_.sq_tail) {
            const WorkRequest wr(queued(qp_.sq_head));
            ++qp_.sq_head;
            complete(wr, IBV_WC_WR_FLUSH_ERR);
        }
        qp_.sq_next = qp_.sq_head;
        qp_.wait = Wait::none;
    }

    // Keeps a work request for later: copies it and its inline data into the ring.
    void enqueue(const WorkRequest& wr)
    {
        SendWqe& wqe = queued(qp_.sq_tail);
        wr.store(wqe);
        ++qp_.sq_tail;
        if (own_ && !qp_.watched) {
            qp_.watched = true;
            self_.agent().watch(index());
        }
    }

    // Notes that a request was executed which completes after the deferred WRITEs before it.
    void enqueue_executed(const WorkRequest& wr, std::optional<std::uint64_t> position)
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

    bool has_executed() const { return qp_.sq_head != qp_.sq_next; }

    // Completes what waited for deferred WRITEs, as far as they are applied.
    void retire()
    {
        while (has_executed()) {
            const SendWqe& wqe = queued(qp_.sq_head);
            if (!is_applied(*deferred_peer(), wqe.write_number)) {
                return;
            }
            ++qp_.sq_head;
            qp_.patience = kPatience;
            complete(WorkRequest(wqe), IBV_WC_SUCCESS);
        }
    }

    // Has all deferred WRITEs applied and completes what waited for them; what cannot be applied
    // fails the QP. The responder is obviously not polling: the next WRITEs go there directly.
    void settle()
    {
        bool stolen = false;
        while (has_executed()) {
            const WorkRequest wr(queued(qp_.sq_head));
            const SendWqe& wqe = queued(qp_.sq_head);
            Settled settled = Settled::applied;
            if (wqe.deferred && !is_applied(*deferred_peer(), wqe.write_number)) {
                stolen = true;
                settled = settle_write(self_, *self_.arena_of(qp_.peer_token), *deferred_peer(),
                                       wqe.position, wqe.write_number);
            }
            ++qp_.sq_head;
            if (settled != Settled::applied) {
                qp_.sq_next = qp_.sq_head;
                finish(wr,
                       settled == Settled::refused ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR);
                return;
            }
            complete(wr, IBV_WC_SUCCESS);
        }
        if (stolen) {
            qp_.direct_writes = kDirectWrites;
        }
    }

    // Executes what is queued until something has to wait.
    void run()
    {
        while (true) {
            retire();
            if (qp_.sq_next == qp_.sq_tail) {
                return;
            }
            settle();
            if (qp_.sq_next == qp_.sq_tail) {
                return;
            }
            const WorkRequest wr(queued(qp_.sq_head));
            Outcome outcome = qp_.state.load() == IBV_QPS_ERR
                                  ? Outcome::finished(IBV_WC_WR_FLUSH_ERR)
                                  : execute(wr);
            if (outcome.wait_for != Wait::none) {
                if (!is_over(outcome.wait_for)) {
                    return;
                }
                outcome = Outcome::finished(outcome.wait_for == Wait::unreachable
                                                ? IBV_WC_RETRY_EXC_ERR
                                                : IBV_WC_RNR_RETRY_EXC_ERR);
            }
            ++qp_.sq_head;
            qp_.sq_next = qp_.sq_head;
            finish(wr, outcome.status);
        }
    }

    void finish(const WorkRequest& wr, ibv_wc_status status)
    {
        qp_.wait = Wait::none;
        if (status != IBV_WC_SUCCESS && has_executed()) {
            settle(); // their completions come before this one
        }
        complete(wr, status);
        if (status != IBV_WC_SUCCESS) {
            if (qp_.type == IBV_QPT_RC) {
                fail();
            } else if (qp_.state.load() == IBV_QPS_RTS) {
                qp_.state.store(IBV_QPS_SQE);
            }
        }
    }

    // Starts or continues to wait; true when the retries are exhausted.
    bool is_over(Wait reason)
    {
        const std::uint64_t now = now_ns();
        if (qp_.wait != reason) {
            qp_.wait = reason;
            qp_.deadline = 0;
            if (reason == Wait::unreachable) {
                if (qp_.timeout != 0) { // 0: wait for ever
                    qp_.deadline =
                        now + (std::uint64_t{4096} << qp_.timeout) * (qp_.retry_count + 1u);
                }
            } else if (qp_.rnr_retry == 0) {
                return true;
            } else if (qp_.rnr_retry != 7) { // 7: without end
                qp_.deadline = now + rnr_timer_ns(peer_->min_rnr_timer) * qp_.rnr_retry;
            }
        }
        return qp_.deadline != 0 && now >= qp_.deadline;
    }

  private:
    std::uint16_t index() const { return static_cast<std::uint16_t>(&qp_ - arena_.qps); }

    SendWqe& queued(std::uint32_t position)
    {
        return *arena_.at<SendWqe>(qp_.sq_ring +
                                   std::uint64_t{position & qp_.sq_mask} * qp_.sq_stride);
    }

    // Finds the connected QP and whether its process lives.
    bool find_peer()
    {
        if (qp_.peer_token == 0 && !resolve_destination()) {
            return false;
        }
        if (!self_.alive(qp_.peer_token)) {
            return false;
        }
        remote_ = self_.arena_of(qp_.peer_token);
        if (remote_ == nullptr) {
            return false;
        }
        peer_ = &remote_->qps[qp_.peer_index];
        return is_connected(*peer_, qp_);
    }

    bool resolve_destination()
    {
        const auto address = self_.find_qp(qp_.destination);
        if (!address || !self_.alive(address->token)) {
            return false;
        }
        Arena* arena = self_.arena_of(address->token);
        if (arena == nullptr) {
            return false;
        }
        const unsigned device = arena->qps[address->index].device;
        if (!is_port(*arena, device, qp_.destination_lid, qp_.destination_gid)) {
            return false;
        }
        qp_.peer_token = address->token;
        qp_.peer_index = address->index;
        qp_.writes_issued = arena->qps[address->index].writes_applied.load();
        return true;
    }

    QpShared* deferred_peer() { return &self_.arena_of(qp_.peer_token)->qps[qp_.peer_index]; }

    int pid_of(const Arena& arena) const { return &arena == &self_.arena() ? 0 : arena.pid; }

    // What a work request reads or writes on the requester's side.
    bool local_list(const WorkRequest& wr, unsigned access, SegmentList& list)
    {
        return wr.is_inline ? inline_list(wr, list)
                            : region_list(arena_, qp_.pd, wr.sge, wr.num_sge, access, list);
    }
    int local_pid(const WorkRequest& wr) const { return wr.is_inline ? 0 : pid_of(arena_); }

    static Outcome outcome_of(Moved moved)
    {
        switch (moved) {
        case Moved::done:
            return Outcome::finished(IBV_WC_SUCCESS);
        case Moved::fault:
            return Outcome::finished(IBV_WC_REM_ACCESS_ERR);
        default:
            return Outcome::wait(Wait::unreachable);
        }
    }

    void count_device_bytes(std::uint64_t from, std::uint64_t to)
    {
        if (from != 0) {
            qp_.bytes_from_device.fetch_add(from, std::memory_order_relaxed);
        }
        if (to != 0) {
            qp_.bytes_to_device.fetch_add(to, std::memory_order_relaxed);
        }
    }

    // The responder refuses: its QP fails too, as a NAK makes it.
    Outcome refused(ibv_wc_status status, ibv_event_type event)
    {
        set_error_state(self_, *remote_, *peer_);
        raise_event(self_, *remote_, peer_->events, event, qp_.peer_index, peer_->number);
        return Outcome::finished(status);
    }

    Outcome send(const WorkRequest& wr)
    {
        SegmentList source;
        if (!local_list(wr, 0, source)) {
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        }
        const Arrival arrival = {
            .opcode = IBV_WC_RECV,
            .flags = wr.opcode == IBV_WR_SEND_WITH_IMM ? unsigned{IBV_WC_WITH_IMM} : 0u,
            .immediate = wr.immediate,
            .length = wr.length,
            .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
        };
        Receiver receiver(self_, *remote_, *peer_, qp_);
        const Delivery delivery = receiver.deliver(arrival, source, local_pid(wr));
        count_device_bytes(source.device_bytes, delivery.device_bytes);
        return judge(delivery.result);
    }

    Outcome judge(Delivered result)
    {
        switch (result) {
        case Delivered::done:
            return Outcome::finished(IBV_WC_SUCCESS);
        case Delivered::not_ready:
            return Outcome::wait(Wait::receiver_not_ready);
        case Delivered::too_long:
            return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
        case Delivered::bad_buffer:
            return refused(IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
        case Delivered::source_fault:
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        default:
            return Outcome::wait(Wait::unreachable);
        }
    }

    // The responder's region of an RDMA operation; zero bytes need none.
    bool remote_list(const WorkRequest& wr, unsigned access, SegmentList& list)
    {
        if (wr.length == 0) {
            return true;
        }
        const MrShared* region =
            find_region(*remote_, wr.rkey, wr.remote_address, wr.length, access, peer_->pd);
        if (region == nullptr) {
            return false;
        }
        list.append(translate(*region, wr.remote_address), wr.length, region->kind);
        return true;
    }

    Outcome write(const WorkRequest& wr)
    {
        SegmentList source, target;
        if (!local_list(wr, 0, source)) {
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        }
        if ((peer_->access & IBV_ACCESS_REMOTE_WRITE) == 0) {
            return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
        }
        if (may_defer(wr)) {
            if (!remote_list(wr, IBV_ACCESS_REMOTE_WRITE, target)) {
                return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
            }
            const auto position =
                defer_write(self_, *remote_, *peer_, wr, source, qp_.writes_issued + 1);
            if (position) {
                ++qp_.writes_issued;
                count_device_bytes(source.device_bytes, target.device_bytes);
                return Outcome::deferred_at(*position);
            }
            target = {};
        }
        if (!is_settled()) {
            return Outcome::finished(IBV_WC_WR_FLUSH_ERR);
        }
        const DirectAccess guard(self_, *remote_);
        if (!remote_list(wr, IBV_ACCESS_REMOTE_WRITE, target)) {
            return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        }
        count_device_bytes(source.device_bytes, target.device_bytes);
        return outcome_of(move(source, local_pid(wr), target, pid_of(*remote_)));
    }

    // Before an operation that must come after the deferred WRITEs; false when they failed.
    bool is_settled()
    {
        if (has_executed()) {
            settle();
        }
        return qp_.state.load(std::memory_order_relaxed) != IBV_QPS_ERR;
    }

    bool may_defer(const WorkRequest& wr)
    {
        if (!posting_ || remote_ == &arena_ || wr.opcode != IBV_WR_RDMA_WRITE || wr.length == 0 ||
            wr.length > kSlotSize) {
            return false;
        }
        if (qp_.direct_writes != 0) {
            --qp_.direct_writes;
            return false;
        }
        return true;
    }

    Outcome write_with_immediate(const WorkRequest& wr)
    {
        Receiver receiver(self_, *remote_, *peer_, qp_);
        if (!receiver.is_ready()) {
            return judge(Delivered::not_ready);
        }
        const Outcome written = write(wr);
        if (written.wait_for != Wait::none || written.status != IBV_WC_SUCCESS) {
            return written;
        }
        const Arrival arrival = {
            .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
            .flags = IBV_WC_WITH_IMM,
            .immediate = wr.immediate,
            .length = wr.length,
            .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
        };
        return judge(receiver.announce(arrival));
    }

    Outcome read(const WorkRequest& wr)
    {
        SegmentList source, target;
        if (!local_list(wr, IBV_ACCESS_LOCAL_WRITE, target)) {
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        }
        if ((peer_->access & IBV_ACCESS_REMOTE_READ) == 0) {
            return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
        }
        if (!is_settled()) {
            return Outcome::finished(IBV_WC_WR_FLUSH_ERR);
        }
        const DirectAccess guard(self_, *remote_);
        if (!remote_list(wr, IBV_ACCESS_REMOTE_READ, source)) {
            return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        }
        count_device_bytes(source.device_bytes, target.device_bytes);
        return outcome_of(move(source, pid_of(*remote_), target, local_pid(wr)));
    }

    Outcome atomic(const WorkRequest& wr)
    {
        SegmentList result, word;
        if (wr.length != sizeof(std::uint64_t)) {
            return Outcome::finished(IBV_WC_LOC_LEN_ERR);
        }
        if (!local_list(wr, IBV_ACCESS_LOCAL_WRITE, result)) {
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        }
        if ((peer_->access & IBV_ACCESS_REMOTE_ATOMIC) == 0 ||
            wr.remote_address % sizeof(std::uint64_t) != 0) {
            return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
        }
        const DirectAccess guard(self_, *remote_);
        if (!remote_list(wr, IBV_ACCESS_REMOTE_ATOMIC, word)) {
            return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        }
        if (!is_settled()) {
            return Outcome::finished(IBV_WC_WR_FLUSH_ERR);
        }
        std::uint64_t former = 0, changed = 0;
        SegmentList former_list, changed_list;
        former_list.append(reinterpret_cast<std::uint64_t>(&former), sizeof former,
                           MemoryKind::host);
        changed_list.append(reinterpret_cast<std::uint64_t>(&changed), sizeof changed,
                            MemoryKind::host);
        const int pid = pid_of(*remote_);
        Moved moved;
        {
            const SharedGuard exclusive(self_.fabric().atomics, self_.token());
            moved = move(word, pid, former_list, 0);
            if (moved == Moved::done) {
                changed = wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? former + wr.compare_add
                          : former == wr.compare_add               ? wr.swap
                                                                   : former;
                moved = move(changed_list, 0, word, pid);
            }
        }
        if (moved == Moved::done) {
            moved = move(former_list, 0, result, pid_of(arena_));
        }
        count_device_bytes(word.device_bytes, word.device_bytes + result.device_bytes);
        return outcome_of(moved);
    }

    Process& self_;
    Arena& arena_; // the requester's
    QpShared& qp_;
    const bool own_;
    const bool posting_;
    Arena* remote_ = nullptr; // the responder's
    QpShared* peer_ = nullptr;
};

} // namespace

bool is_port(const Arena& arena, unsigned device, std::uint16_t lid, const std::uint8_t* gid)
{
    if (lid != 0 && lid == arena.port_lid[device]) {
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

int post_send_list(Process& self, Qp& object, ibv_send_wr* wr, ibv_send_wr** bad)
{
    Arena& arena = self.arena();
    QpShared& qp = arena.qps[object.index];
    const SharedGuard guard(qp.lock, self.token());
    Engine engine(self, arena, qp, true);
    if (engine.has_executed()) {
        engine.retire();
    }
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        const std::uint8_t state = qp.state.load(std::memory_order_acquire);
        error = state < IBV_QPS_RTS ? EINVAL : check(qp, *wr);
        if (error == 0 &&
            qp.posted - qp.reclaimed.load(std::memory_order_relaxed) >= qp.max_send_wr) {
            error = ENOMEM;
        }
        if (error != 0) {
            *bad = wr;
            break;
        }
        const WorkRequest request(*wr, qp.posted++);
        if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
            engine.complete(request, IBV_WC_WR_FLUSH_ERR);
            continue;
        }
        if (qp.sq_next != qp.sq_tail || state == IBV_QPS_SQD) {
            engine.enqueue(request);
            continue;
        }
        const Outcome outcome = engine.execute(request);
        if (outcome.deferred) {
            engine.enqueue_executed(request, outcome.deferred);
            list_deferring(object_of<Cq>(object.base.send_cq), object.index, qp);
        } else if (outcome.wait_for == Wait::none && outcome.status == IBV_WC_SUCCESS &&
                   engine.has_executed()) {
            engine.enqueue_executed(request, std::nullopt);
        } else if (outcome.wait_for == Wait::none) {
            engine.finish(request, outcome.status);
        } else if (engine.is_over(outcome.wait_for)) { // only with no RNR retry at all
            engine.finish(request, IBV_WC_RNR_RETRY_EXC_ERR);
        } else {
            engine.enqueue(request);
        }
    }
    return error;
}

void run_send_queue(Process& self, Arena& arena, std::uint32_t qp_index)
{
    QpShared& qp = arena.qps[qp_index];
    const SharedGuard guard(qp.lock, self.token());
    const std::uint8_t state = qp.state.load();
    if (qp.number != 0 && (state == IBV_QPS_RTS || state == IBV_QPS_ERR)) {
        Engine(self, arena, qp).run();
    }
}

bool run_watched(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qps[qp_index];
    run_send_queue(self, self.arena(), qp_index);
    const SharedGuard guard(qp.lock, self.token());
    if (qp.number == 0) {
        qp.watched = false;
        return false;
    }
    Engine engine(self, self.arena(), qp);
    if (engine.has_executed()) {
        // One tick is time enough for a responder that polls.
        if (qp.patience == 0) {
            engine.settle();
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
    Engine engine(self, self.arena(), self.arena().qps[qp_index]);
    if (engine.has_executed()) {
        engine.settle();
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
        QpShared& qp = self.arena().qps[batch[i]];
        const SharedGuard guard(qp.lock, self.token());
        if (qp.number == 0) {
            continue;
        }
        Engine engine(self, self.arena(), qp);
        engine.retire();
        if (engine.has_executed() && (now || qp.patience-- == 0)) {
            engine.settle();
        }
        qp.deferring = engine.has_executed();
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
    const QpShared& qp = self.arena().qps[qp_index];
    const auto address = self.find_qp(qp.destination);
    if (!address || !self.alive(address->token)) {
        return;
    }
    Arena* arena = self.arena_of(address->token);
    if (arena != nullptr && arena->qps[address->index].destination == qp.number) {
        run_send_queue(self, *arena, address->index);
    }
}

void serve_waiting_peers(Process& self, std::uint32_t recv_queue, const std::uint32_t* qps,
                         std::size_t count)
{
    RqShared& queue = self.arena().recv_queues[recv_queue];
    {
        const SharedGuard guard(queue.lock, self.token());
        queue.peers_waiting = 0;
    }
    for (std::size_t i = 0; i < count; ++i) {
        bool waiting;
        {
            const SharedGuard guard(queue.lock, self.token());
            waiting = std::exchange(self.arena().qps[qps[i]].peer_waiting, false);
        }
        if (waiting) {
            wake_peer(self, qps[i]);
        }
    }
}

void fail_qp(Process& self, std::uint32_t qp_index)
{
    QpShared& qp = self.arena().qps[qp_index];
    const SharedGuard guard(qp.lock, self.token());
    Engine(self, self.arena(), qp).fail();
}

} // namespace softhca
