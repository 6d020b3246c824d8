// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Deferred RDMA WRITEs, see deferred.hpp.
#include "emu/softhca/deferred.hpp"

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
        queue.free_slots.push(owner.at<std::uint32_t>(queue.slot_next), slot);
    }
}

const MrShared* target_of(Arena& owner, const QpShared& qp, const Cqe& entry)
{
    return find_region(owner, entry.source_qp, entry.id, entry.byte_length, IBV_ACCESS_REMOTE_WRITE,
                       qp.pd, qp.number);
}

} // namespace

std::optional<std::uint64_t> defer_write(Process& self, Arena& remote, QpShared& peer,
                                         const WorkRequest& wr, const SegmentList& source,
                                         std::uint32_t number)
{
    RqShared& queue = remote.recv_queues[peer.recv_queue];
    std::uint32_t slot = kNoSlot;
    if (wr.length > sizeof(Cqe::payload)) {
        const SharedGuard guard(queue.lock, self.token());
        if (queue.generation % 2 != 0) {
            slot = queue.free_slots.pop(remote.at<std::uint32_t>(queue.slot_next));
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
    CqShared& cq = remote.cqs[peer.recv_cq];
    while (!is_applied(peer, number)) {
        if (!self.alive(remote.token)) {
            return Settled::unreachable;
        }
        {
            const DirectAccess access(self, remote);
            const SharedGuard guard(cq.lock, self.token());
            if (cq.generation % 2 == 0 || peer.number != qp_number) {
                return Settled::unreachable;
            }
            Cqe& entry = remote.at<Cqe>(cq.ring)[position & cq.mask];
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
                RqShared& queue = remote.recv_queues[peer.recv_queue];
                const MrShared* region = target_of(remote, peer, entry);
                Moved moved = Moved::fault;
                if (region != nullptr) {
                    SegmentList source, target;
                    source.append(reinterpret_cast<std::uint64_t>(payload_of(remote, queue, entry)),
                                  entry.byte_length);
                    target.append(*region, entry.id, entry.byte_length);
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
        }
        sched_yield(); // the responder is copying
    }
    return Settled::applied;
}

Applied apply_write(Process& self, Cqe& entry, std::uint64_t position)
{
    Arena& arena = self.arena();
    QpShared& qp = arena.qps[entry.qp];
    RqShared& queue = arena.recv_queues[qp.recv_queue];
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
        const MrShared* region = target_of(arena, qp, entry);
        if (state < IBV_QPS_RTR || state > IBV_QPS_SQE) {
            region = nullptr; // nothing lands any more
        } else if (region == nullptr) {
            qp.write_status.store(IBV_WC_REM_ACCESS_ERR);
            free_slot(arena, queue, entry.slot);
            return Applied::refused;
        }
        if (region != nullptr) {
            SegmentList target;
            target.append(*region, entry.id, entry.byte_length);
            scatter(target, payload_of(arena, queue, entry), entry.byte_length);
            qp.writes_applied.store(entry.immediate, std::memory_order_release);
        }
    }
    free_slot(arena, queue, entry.slot);
    return Applied::done;
}

} // namespace softhca
