// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A send queue being run, by its owner or by another process: execution of the work requests at its
// head and completion of those that are done. The caller holds the queue's lock all the while.
#pragma once

#include "emu/softhca/deferred.hpp"
#include "emu/softhca/receive.hpp"
#include "emu/softhca/wire.hpp"
#include "emu/softhca/work_request.hpp"

#include <optional>

namespace softhca {

// Who runs a send queue.
enum class Role {
    poster, // may defer WRITEs
    any,
    copier, // of the owner: waits for copies by the CUDA driver
};

class SendQueue {
  public:
    SendQueue(Process& self, Arena& arena, QpShared& qp, Role role = Role::any)
        : self_(self), arena_(arena), qp_(qp), own_(&arena == &self.arena()), role_(role),
          wire_(self, arena, qp)
    {
    }

    // A list of work requests is about to be posted; without the lock.
    void posted() { wire_.posted(); }
    // Executes a work request that is at the head of the queue.
    Outcome execute(const WorkRequest& wr);
    // Publishes the completion of an executed work request.
    void complete(const WorkRequest& wr, ibv_wc_status status);
    // Brings the QP into the error state after its current work request failed, or on request.
    void fail();
    // Keeps a work request for later: copies it and its inline data into the ring.
    void enqueue(const WorkRequest& wr);
    // Notes that a request was executed which completes after the deferred WRITEs before it.
    void enqueue_executed(const WorkRequest& wr, std::optional<std::uint64_t> position);
    bool has_executed()
    {
        check_counts();
        return qp_.sq_head != qp_.sq_next;
    }
    // Completes what waited for deferred WRITEs, as far as they are applied.
    void retire();
    // Has all deferred WRITEs applied and completes what waited for them; what cannot be applied
    // fails the QP. The responder is obviously not polling: the next WRITEs go there directly.
    void settle();
    // Has the owner's copier run the queue.
    void leave_to_copier();
    // Executes what is queued until something has to wait.
    void run();
    void finish(const WorkRequest& wr, ibv_wc_status status);
    // Starts or continues to wait; true when the retries are exhausted.
    bool is_over(Wait reason);

  private:
    bool is_reliable() const { return qp_.type != IBV_QPT_UD && qp_.type != IBV_QPT_UC; }
    std::uint16_t index() const { return static_cast<std::uint16_t>(&qp_ - arena_.qps); }
    SendWqe& queued(std::uint32_t position)
    {
        return *arena_.at<SendWqe>(qp_.sq_ring +
                                   std::uint64_t{position & qp_.sq_mask} * qp_.sq_stride);
    }
    void count(const WorkRequest& wr);
    // Finds the connected QP and whether its process lives.
    bool find_peer();
    bool resolve_destination();
    // The queue pair that deferred WRITEs wait for, and its arena; null if it is out of reach.
    Arena* deferred_arena() { return self_.arena_of(qp_.peer_token); }
    QpShared* deferred_peer()
    {
        Arena* arena = deferred_arena();
        return arena == nullptr ? nullptr : &arena->qp(qp_.peer_index);
    }
    // Empties a queue whose counts make no sense.
    void check_counts()
    {
        const std::uint32_t all = qp_.sq_tail - qp_.sq_head;
        if (all > kMaxQueueDepth || qp_.sq_next - qp_.sq_head > all) {
            qp_.sq_head = qp_.sq_next = qp_.sq_tail;
        }
    }
    int pid_of(const Arena& arena) const { return &arena == &self_.arena() ? 0 : arena.pid; }
    // What a work request reads or writes on the requester's side.
    bool local_list(const WorkRequest& wr, unsigned access, SegmentList& list);
    int local_pid(const WorkRequest& wr) const { return wr.is_inline ? 0 : pid_of(arena_); }
    // Whether memory is of a kind that is left to the copier.
    bool is_for_copier(const SegmentList& list) const
    {
        return list.on_cuda && role_ != Role::copier;
    }
    // Executes without the lock: the copier's way.
    Outcome execute_unlocked(const WorkRequest& wr);
    static Outcome outcome_of(Moved moved);
    void count_device_bytes(std::uint64_t from, std::uint64_t to)
    {
        if (from != 0) {
            qp_.bytes_from_device.fetch_add(from, std::memory_order_relaxed);
        }
        if (to != 0) {
            qp_.bytes_to_device.fetch_add(to, std::memory_order_relaxed);
        }
    }
    Outcome attempt(const WorkRequest& wr);
    // What an unreliable requester learns: nothing of its peer.
    Outcome unacknowledged(const Outcome& outcome) const;
    // The responder refuses: its QP fails too, as a NAK makes it.
    Outcome refused(ibv_wc_status status, ibv_event_type event);
    // Likewise, after a receive that has ended with an error.
    Outcome receive_failed(ibv_wc_status status, ibv_event_type event);
    // What concerns no peer.
    Outcome execute_locally(const WorkRequest& wr);
    Outcome connect(const WorkRequest& wr);
    Outcome send(const WorkRequest& wr);
    Outcome judge(Delivered result);
    // The responder's memory of an RDMA operation, in an empty list; zero bytes need none.
    bool remote_list(const WorkRequest& wr, unsigned access, SegmentList& list)
    {
        return remote_region(wr, access, list) || remote_keys(wr, access, list);
    }
    bool remote_region(const WorkRequest& wr, unsigned access, SegmentList& list);
    [[gnu::cold]] bool remote_keys(const WorkRequest& wr, unsigned access, SegmentList& list);
    Outcome write(const WorkRequest& wr);
    // Before an operation that must come after the deferred WRITEs; false when they failed.
    bool is_settled();
    bool may_defer(const WorkRequest& wr);
    Outcome write_with_immediate(const WorkRequest& wr);
    Outcome read(const WorkRequest& wr);
    Outcome atomic(const WorkRequest& wr);
    Outcome bind(const WorkRequest& wr);
    Outcome invalidate(const WorkRequest& wr);

    Process& self_;
    Arena& arena_; // the requester's
    QpShared& qp_;
    const bool own_;
    const Role role_;
    Wire wire_;
    Arena* remote_ = nullptr; // the responder's
    QpShared* peer_ = nullptr;
    std::uint64_t looked_ = 0; // the responder's, when execution began
};

} // namespace softhca
