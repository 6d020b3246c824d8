// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Deferred RDMA WRITEs, see deferred.hpp.
#include "emu/softhca/deferred.hpp"

#include "emu/softhca/clock.hpp"
#include "emu/softhca/cq.hpp"

namespace softhca {
namespace {

// With the position in it, so that an entry that has since been used again cannot be claimed.
constexpr std::uint32_t claim_word(std::uint64_t position, Claim claim)
{
    return static_cast<std::uint32_t>(position) << 2 | static_cast<std::uint32_t>(claim);
}

std::uint8_t* payload_of(Arena& owner, const RqShared& queue, Cqe& entry)
{
    return entry.slot == kNoSlot
               ? entry.payload
               : owner.at<std::uint8_t>(queue.slots + std::uint64_t{entry.slot} * kSlotSize);
}

void free_slot(Arena& owner, RqShared& queue, std::uint16_t slot)
{
    if (slot != kNoSlot) {
        queue.free_slots.push(owner, queue.slot_next, slot);
    }
}

// Where the write in an entry goes; false if that is not allowed.
bool target_list(Arena& owner, const QpShared& qp, const Cqe& entry, SegmentList& target)
{
    const std::uint32_t length = entry.byte_length;
    if (length > (entry.slot == kNoSlot ? sizeof entry.payload : kSlotSize)) {
        return false;
    }
    const MrShared* region = find_region(owner, entry.source_qp, entry.id, length,
                                         IBV_ACCESS_REMOTE_WRITE, qp.pd, qp.number);
    return region != nullptr ? target.append(*region, entry.id, length)
                             : append_listed(owner, entry.source_qp, entry.id, length,
                                             IBV_ACCESS_REMOTE_WRITE, qp.pd, target);
}

} // namespace

std::optional<std::uint64_t> defer_write(Process& self, Arena& remote, QpShared& peer,
                                         const WorkRequest& wr, const SegmentList& source,
                                         std::uint32_t number)
{
    RqShared& queue = remote.recv_queue(peer.recv_queue);
    std::uint32_t slot = kNoSlot;
    if (wr.length > sizeof(Cqe::payload)) {
        const SharedGuard guard(queue.lock, self.token());
        if (queue.generation % 2 != 0) {
            slot = queue.free_slots.pop(remote, queue.slot_next);
        } else {
            slot = kNone;
        }
        if (slot == kNone) {
            return std::nullopt;
        }
        gather(remote.at<std::uint8_t>(queue.slots + std::uint64_t{slot} * kSlotSize), source);
    }
    const auto position = push_hidden(self, remote, peer.recv_cq, [&](Cqe& entry, auto at) {
        entry.byte_length = wr.length;
        entry.id = wr.remote_address;
        entry.immediate = number;
        entry.source_qp = wr.rkey;
        entry.wqe.store(claim_word(at, Claim::pending), std::memory_order_relaxed);
        entry.qp = static_cast<std::uint16_t>(&peer - remote.qps);
        entry.slot = static_cast<std::uint16_t>(slot);
        entry.kind = CqeKind::write;
        if (slot == kNoSlot) {
            gather(entry.payload, source);
        }
    });
    if (!position) {
        free_slot(remote, queue, static_cast<std::uint16_t>(slot));
    }
    return position;
}

Settled settle_write(Process& self, Arena& remote, QpShared& peer, std::uint64_t position,
                     std::uint32_t number)
{
    const std::uint32_t qp_number = peer.number;
    const std::uint64_t limit = now_ns() + kLongestHold; // who copies may wait for a processor
    CqShared& cq = remote.cq(peer.recv_cq);
    while (!is_applied(peer, number)) {
        if (!self.alive(remote.token) || now_ns() > limit) {
            return Settled::unreachable;
        }
        {
            const DirectAccess access(self, remote);
            const SharedGuard guard(cq.lock, self.token());
            if (cq.generation % 2 == 0 || peer.number != qp_number) {
                return Settled::unreachable;
            }
            Cqe& entry = *remote.at<Cqe>(cq.ring, position & cq.mask);
            if (position < cq.head.load(std::memory_order_acquire) ||
                entry.kind != CqeKind::write) {
                // The responder has seen it: applied by now, or not to be. Or it reset its QP.
                return is_applied(peer, number)        ? Settled::applied
                       : peer.write_status.load() != 0 ? Settled::refused
                                                       : Settled::unreachable;
            }
            std::uint32_t expected = claim_word(position, Claim::pending);
            if (entry.wqe.compare_exchange_strong(expected,
                                                  claim_word(position, Claim::by_requester))) {
                RqShared& queue = remote.recv_queue(peer.recv_queue);
                Moved moved = Moved::fault;
                SegmentList source, target;
                if (target_list(remote, peer, entry, target)) {
                    source.append(reinterpret_cast<std::uint64_t>(payload_of(remote, queue, entry)),
                                  target.bytes);
                    moved = move(source, 0, target, &remote == &self.arena() ? 0 : remote.pid);
                }
                if (moved == Moved::done) {
                    peer.writes_applied.store(number, std::memory_order_release);
                }
                free_slot(remote, queue, entry.slot);
                entry.wqe.store(claim_word(position, Claim::done), std::memory_order_release);
                return moved == Moved::done   ? Settled::applied
                       : moved == Moved::gone ? Settled::unreachable
                                              : Settled::refused;
            }
            if (expected != claim_word(position, Claim::by_responder)) {
                return is_applied(peer, number) ? Settled::applied : Settled::unreachable;
            } // else it is copying
        }
        sched_yield();
    }
    return Settled::applied;
}

Applied apply_write(Process& self, Cqe& entry, std::uint64_t position)
{
    Arena& arena = self.arena();
    QpShared& qp = arena.qp(entry.qp);
    RqShared& queue = arena.recv_queue(qp.recv_queue);
    std::uint32_t expected = claim_word(position, Claim::pending);
    if (!entry.wqe.compare_exchange_strong(expected, claim_word(position, Claim::by_responder),
                                           std::memory_order_acquire)) {
        if (expected == claim_word(position, Claim::done)) {
            return Applied::done;
        }
        const auto requester = self.find_qp(qp.destination);
        if (requester && self.alive(requester->token)) {
            return Applied::blocked;
        }
    } else {
        const std::uint8_t state = qp.state.load(std::memory_order_relaxed);
        SegmentList target;
        if (state >= IBV_QPS_RTR && state <= IBV_QPS_SQE) { // else nothing lands any more
            if (!target_list(arena, qp, entry, target)) {
                qp.write_status.store(IBV_WC_REM_ACCESS_ERR);
                free_slot(arena, queue, entry.slot);
                return Applied::refused;
            }
            scatter(target, payload_of(arena, queue, entry), target.bytes);
            qp.writes_applied.store(entry.immediate, std::memory_order_release);
        }
    }
    free_slot(arena, queue, entry.slot);
    return Applied::done;
}

} // namespace softhca
