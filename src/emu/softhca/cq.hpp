// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The producers' side of a completion queue, used by whichever process executes a work request.
#pragma once

#include "emu/softhca/fabric.hpp"
#include "emu/softhca/objects.hpp"

#include <optional>

namespace softhca {

// What the pipe of a completion channel carries.
struct CqNotice {
    std::uint32_t index;
    std::uint32_t generation;
};

// Raises IBV_EVENT_CQ_ERR; the entry is lost, as on overrun of a real CQ.
void report_overrun(Process& self, Arena& owner, std::uint32_t index);

// Appends an entry that the application does not see, if that leaves room for all that it may see:
// fill(entry, position). Returns the position; nothing when the ring is too full.
template <class Fill>
std::optional<std::uint64_t> push_hidden(Process& self, Arena& owner, std::uint32_t index,
                                         Fill fill)
{
    CqShared& cq = owner.cqs[index];
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
    Cqe& entry = owner.at<Cqe>(cq.ring)[position & cq.mask];
    fill(entry, position);
    entry.sequence.store(static_cast<std::uint32_t>(++cq.tail), std::memory_order_release);
    return position;
}

// Appends an entry to a completion queue of `owner`: fill(entry) writes all of it but the
// sequence. Rings the completion channel if the queue is armed for such an entry.
template <class Fill>
void push_cqe(Process& self, Arena& owner, std::uint32_t index, bool solicited, Fill fill)
{
    CqShared& cq = owner.cqs[index];
    cq.lock.lock(self.token());
    if (cq.generation % 2 == 0) {
        cq.lock.unlock();
        return;
    }
    if (cq.tail - cq.seen_head > cq.mask) {
        cq.seen_head = cq.head.load(std::memory_order_acquire);
        if (cq.tail - cq.seen_head > cq.mask) {
            const bool first = cq.overrun++ == 0;
            cq.lock.unlock();
            if (first) {
                report_overrun(self, owner, index);
            }
            return;
        }
    }
    Cqe* const ring = owner.at<Cqe>(cq.ring);
    Cqe& entry = ring[cq.tail & cq.mask];
    fill(entry);
    entry.sequence.store(static_cast<std::uint32_t>(++cq.tail), std::memory_order_release);
    cq.last_visible = cq.tail;
    if (solicited) {
        cq.last_solicited = cq.tail;
    }
    PipeRef channel{};
    const CqNotice notice{index, cq.generation};
    if (cq.armed == 2 || (cq.armed == 1 && solicited)) {
        cq.armed = 0;
        channel = cq.channel;
    }
    cq.lock.unlock();
    if (channel.id != 0) {
        self.write_pipe(owner.token, channel, &notice, sizeof notice);
    }
}

// Removes the entries of a QP that is destroyed or reset from a CQ of this process. The QP's
// receive queue gets back what they hold.
void purge_cq(Process& self, Cq& cq, std::uint32_t qp_index);

} // namespace softhca
