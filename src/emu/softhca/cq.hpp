// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The producers' side of a completion queue, used by whichever process executes a work request.
#pragma once

#include "emu/softhca/clock.hpp"
#include "emu/softhca/fabric.hpp"
#include "emu/softhca/liveness.hpp"
#include "emu/softhca/objects.hpp"

#include <optional>

namespace softhca {

// What the pipe of a completion channel carries.
struct CqNotice {
    std::uint32_t index;
    std::uint32_t generation;
};

// Raises IBV_EVENT_CQ_ERR: the entry is lost, and so is all that follows, as with a real CQ.
void report_overrun(Process& self, Arena& owner, std::uint32_t index);

// Under the lock: the event of an armed queue is due; returns where to write it.
inline PipeRef disarm(CqShared& cq)
{
    cq.armed = 0;
    cq.wake_at.store(0, std::memory_order_relaxed);
    return cq.channel;
}

// Under the lock: the event is due at a later time; true if that is news for the owner's agent.
inline bool postpone(CqShared& cq, std::uint64_t ready)
{
    const std::uint64_t former = cq.wake_at.load(std::memory_order_relaxed);
    if (former != 0 && former <= ready) {
        return false;
    }
    cq.wake_at.store(ready, std::memory_order_relaxed);
    return true;
}

// Rings the channels of this process's armed queues for entries whose time has come; returns when
// to do so next, 0: not before the doorbell.
std::uint64_t ring_channels(Process& self);

// Appends an entry that the application does not see, if that leaves room for all that it may see:
// fill(entry, position). Returns the position; nothing when the ring is too full.
template <class Fill>
std::optional<std::uint64_t> push_hidden(Process& self, Arena& owner, std::uint32_t index,
                                         Fill fill)
{
    CqShared& cq = owner.cq(index);
    const SharedGuard guard(cq.lock, self.token());
    if (cq.generation % 2 == 0) {
        return std::nullopt;
    }
    if (cq.tail - cq.seen_head >= cq.spare) {
        cq.seen_head = cq.head.load(std::memory_order_acquire);
        if (cq.tail - cq.seen_head >= cq.spare) {
            return std::nullopt;
        }
    }
    const std::uint64_t position = cq.tail;
    Cqe& entry = *owner.at<Cqe>(cq.ring, position & cq.mask);
    fill(entry, position);
    entry.ready = 0;
    entry.sequence.store(static_cast<std::uint32_t>(++cq.tail), std::memory_order_release);
    return position;
}

// Under the lock: whether the application asked for one more entry than it has to poll. The ring
// has room for it then, unless many are polled behind one whose time has not come.
inline bool has_room(CqShared& cq)
{
    if (cq.visible - cq.seen_taken >= cq.length) {
        cq.seen_taken = cq.taken.load(std::memory_order_acquire);
    }
    if (cq.tail - cq.seen_head > cq.mask) {
        cq.seen_head = cq.head.load(std::memory_order_acquire);
    }
    return cq.visible - cq.seen_taken < cq.length && cq.tail - cq.seen_head <= cq.mask &&
           !cq.overrun;
}

// Appends an entry to a completion queue of `owner`, which its application sees from `ready` on, at
// once if that is 0: fill(entry) writes all of it but the sequence and what is given here. Rings
// the completion channel, then, if the queue is armed for such an entry.
template <class Fill>
void push_cqe(Process& self, Arena& owner, std::uint32_t index, bool solicited, std::uint64_t ready,
              Fill fill)
{
    CqShared& cq = owner.cq(index);
    cq.lock.lock(self.token());
    if (cq.generation % 2 == 0) {
        cq.lock.unlock();
        return;
    }
    if (!has_room(cq)) {
        const bool first = !cq.overrun;
        cq.overrun = true;
        cq.lock.unlock();
        if (first) {
            report_overrun(self, owner, index);
        }
        return;
    }
    Cqe& entry = *owner.at<Cqe>(cq.ring, cq.tail & cq.mask);
    fill(entry);
    entry.solicited = solicited;
    entry.ready = ready;
    entry.sequence.store(static_cast<std::uint32_t>(++cq.tail), std::memory_order_release);
    cq.last_visible = cq.tail;
    ++cq.visible;
    if (solicited) {
        cq.last_solicited = cq.tail;
    }
    PipeRef channel{};
    const CqNotice notice{index, cq.generation};
    bool postponed = false;
    if (cq.armed == 2 || (cq.armed == 1 && solicited)) {
        if (ready == 0 || ready <= now_ns()) {
            channel = disarm(cq);
        } else {
            postponed = postpone(cq, ready);
        }
    }
    cq.lock.unlock();
    if (channel.id != 0) {
        self.write_pipe(owner.token, channel, &notice, sizeof notice);
    }
    if (postponed) {
        ring_doorbell(owner);
    }
}

// Whether there may be something for take_completions(), which yields the processor when called in
// vain for long: for whoever looks at many queues and sees himself to it that others run.
inline bool has_entries(const Cq& cq, const CqShared& shared)
{
    const std::uint64_t head = shared.head.load(std::memory_order_relaxed);
    return cq.ring.load(std::memory_order_relaxed)[head & cq.mask].sequence.load(
               std::memory_order_acquire) == static_cast<std::uint32_t>(head + 1) ||
           cq.is_deferring.load(std::memory_order_relaxed);
}

// A message that whoever polls keeps, of those queue pairs that it has said so of.
struct Payload {
    std::uint32_t length = 0; // 0: it lies in the receive's buffers
    std::uint8_t bytes[64];
};

// ibv_poll_cq, by whoever may poll. Payloads: one for each completion, or null.
int take_completions(Cq& cq, int count, ibv_wc* wc, Payload* payloads = nullptr);

// Removes the entries of a QP that is destroyed or reset from a CQ of this process. The QP's
// receive queue gets back what they hold.
void purge_cq(Process& self, Cq& cq, std::uint32_t qp_index);

} // namespace softhca
