// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Receive queues: delivery into them, flushing and posting, see receive.hpp.
#include "emu/softhca/receive.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/window.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

namespace softhca {
namespace {

RecvWqe& wqe_at(Arena& owner, const RqShared& queue, std::uint32_t index)
{
    return *owner.at<RecvWqe>(queue.wqes + std::uint64_t{index} * queue.wqe_stride);
}

std::uint8_t* slot_at(Arena& owner, const RqShared& queue, std::uint32_t index)
{
    return owner.at<std::uint8_t>(queue.slots + std::uint64_t{index} * kSlotSize);
}

// Whether the keys of a WQE's scatter list cover it, as they did when it was posted.
bool is_covered(Arena& owner, const RqShared& queue, const RecvEntry& entry)
{
    if (entry.length == kBadBuffer) {
        return false;
    }
    if (entry.deregistrations == owner.deregistrations.load(std::memory_order_acquire)) {
        return true;
    }
    const RecvWqe& wqe = wqe_at(owner, queue, entry.wqe);
    SegmentList list;
    return region_list(owner, queue.pd, wqe.sge, std::min(wqe.num_sge, kMaxSge),
                       IBV_ACCESS_LOCAL_WRITE, list);
}

// Takes the next WQE, under the queue's lock; true in `limit` when the SRQ's limit is reached.
bool take_wqe(Arena& owner, RqShared& queue, RecvEntry& entry, bool& limit)
{
    if (queue.tail - queue.head > kMaxQueueDepth) { // nonsense
        queue.head = queue.tail;
    }
    if (queue.generation % 2 == 0 || queue.head == queue.tail) {
        return false;
    }
    entry = *owner.at<RecvEntry>(queue.ring, queue.head & queue.mask);
    ++queue.head;
    if (queue.limit != 0 && queue.tail - queue.head < queue.limit) {
        queue.limit = 0;
        limit = true;
    }
    return true;
}

std::uint16_t index_of(const Arena& owner, const QpShared& qp)
{
    return static_cast<std::uint16_t>(&qp - owner.qps);
}

// The entry of a receive completion, but for its payload.
void describe(Cqe& entry, const Arena& owner, const QpShared& qp, const Arrival& arrival,
              std::uint32_t wqe, std::uint16_t slot, ibv_wc_status status)
{
    entry.byte_length = arrival.length;
    entry.immediate = arrival.immediate;
    entry.source_qp = arrival.source_qp;
    entry.wqe.store(wqe, std::memory_order_relaxed);
    entry.qp = index_of(owner, qp);
    entry.slot = slot;
    entry.kind = CqeKind::receive;
    entry.status = static_cast<std::uint8_t>(status);
    entry.opcode = static_cast<std::uint8_t>(arrival.opcode);
    entry.flags = static_cast<std::uint8_t>(arrival.flags);
    entry.source_lid = arrival.source_lid;
    entry.service_level = arrival.service_level;
}

void raise_limit(Process& self, Arena& owner, const RqShared& queue)
{
    const auto index = static_cast<std::uint32_t>(&queue - owner.recv_queues);
    raise_event(self, owner, queue.events, IBV_EVENT_SRQ_LIMIT_REACHED, index - kMaxQps,
                queue.generation);
}

// A queue pair's receive completions keep their order. Under the receive queue's lock.
std::uint64_t in_order(QpShared& qp, std::uint64_t ready)
{
    return qp.recv_ready = std::max(qp.recv_ready, ready);
}

} // namespace

bool may_be_unseen(std::uint64_t looked, const QpShared& sender)
{
    if (looked == 0) {
        return false;
    }
    if (sender.wait != Wait::receiver_not_ready) {
        return true;
    }
    return looked <= sender.waits_since && now_ns() - sender.waits_since < kLongestHold;
}

bool Receiver::connected() const
{
    const std::uint8_t state = qp_.state.load(std::memory_order_relaxed);
    return qp_.number == sender_.destination &&
           (qp_.destination == sender_.number || is_dc_target(qp_, sender_)) &&
           state >= IBV_QPS_RTR && state <= IBV_QPS_SQE;
}

bool Receiver::is_stormy()
{
    if (qp_.rnr_storm == 0) {
        return false;
    }
    --qp_.rnr_storm;
    return true;
}

bool Receiver::wait_for_wqe()
{
    qp_.peer_waiting = true;
    queue_.peers_waiting = 1;
    return false;
}

bool Receiver::take(RecvEntry& entry)
{
    if (!is_stormy() && take_wqe(owner_, queue_, entry, limit_reached_)) {
        return true;
    }
    return wait_for_wqe();
}

bool Receiver::next_is_on_cuda()
{
    return queue_.head != queue_.tail &&
           wqe_at(owner_, queue_, owner_.at<RecvEntry>(queue_.ring, queue_.head & queue_.mask)->wqe)
               .on_cuda;
}

void Receiver::check_limit()
{
    if (limit_reached_) {
        limit_reached_ = false;
        raise_limit(self_, owner_, queue_);
    }
}

void Receiver::publish(const Arrival& arrival, std::uint32_t wqe, std::uint16_t slot,
                       ibv_wc_status status, const SegmentList* inlined)
{
    if (status == IBV_WC_SUCCESS && (arrival.flags & IBV_WC_WITH_INV) != 0) {
        invalidate_window(self_, owner_, qp_, arrival.immediate);
    }
    push_cqe(self_, owner_, qp_.recv_cq, arrival.solicited || status != IBV_WC_SUCCESS,
             in_order(qp_, wire_.ready()), [&](Cqe& entry) {
                 describe(entry, owner_, qp_, arrival, wqe, slot, status);
                 if (inlined != nullptr) {
                     gather(entry.payload, *inlined);
                 }
             });
}

bool Receiver::is_ready()
{
    const SharedGuard guard(queue_.lock, self_.token());
    if (!is_stormy() && queue_.head != queue_.tail) {
        return true;
    }
    return wait_for_wqe();
}

Delivery Receiver::deliver(const Arrival& arrival, const SegmentList& source, int source_pid)
{
    std::optional<DirectAccess> access; // if it goes there directly
    RecvEntry entry;
    SegmentList target;
    std::uint16_t epoch;
    {
        const SharedGuard guard(queue_.lock, self_.token());
        if (!connected()) {
            return {Delivered::unreachable};
        }
        if (!copier_ && next_is_on_cuda()) {
            return {Delivered::needs_copier};
        }
        if (!take(entry)) {
            return {Delivered::not_ready};
        }
        wire_.send(owner_, qp_, arrival.length);
        if (!is_covered(owner_, queue_, entry)) {
            publish(arrival, entry.wqe, kLanded, IBV_WC_LOC_PROT_ERR, nullptr);
            return {Delivered::bad_buffer};
        }
        if (arrival.length > entry.length) {
            publish(arrival, entry.wqe, kLanded, IBV_WC_LOC_LEN_ERR, nullptr);
            return {Delivered::too_long};
        }
        const RecvWqe& wqe = wqe_at(owner_, queue_, entry.wqe);
        const bool by_cpu = source_pid == 0 && !source.on_cuda && !wqe.on_cuda;
        if (by_cpu && arrival.length <= sizeof(Cqe::payload)) {
            publish(arrival, entry.wqe, kNoSlot, IBV_WC_SUCCESS, &source);
            check_limit();
            return {Delivered::done};
        }
        if (by_cpu && arrival.length <= kSlotSize) {
            const std::uint32_t slot = queue_.free_slots.pop(owner_, queue_.slot_next);
            if (slot != kNone) {
                gather(slot_at(owner_, queue_, slot), source);
                publish(arrival, entry.wqe, static_cast<std::uint16_t>(slot), IBV_WC_SUCCESS,
                        nullptr);
                check_limit();
                return {Delivered::done};
            }
        }
        access.emplace(self_, owner_);
        if (!region_list(owner_, queue_.pd, wqe.sge, wqe.num_sge, IBV_ACCESS_LOCAL_WRITE, target) ||
            target.bytes < arrival.length) {
            publish(arrival, entry.wqe, kLanded, IBV_WC_LOC_PROT_ERR, nullptr);
            return {Delivered::bad_buffer};
        }
        epoch = qp_.epoch;
    }
    const int owner_pid = &owner_ == &self_.arena() ? 0 : owner_.pid;
    const Moved moved = move(source, source_pid, target, owner_pid);
    Delivery delivery{Delivered::done, std::min(target.device_bytes, source.bytes)};
    {
        const SharedGuard guard(queue_.lock, self_.token());
        if (qp_.epoch != epoch) {
            queue_.free_wqes.push(owner_, queue_.wqe_next, entry.wqe);
            return {Delivered::unreachable};
        }
        publish(arrival, entry.wqe, kLanded,
                moved == Moved::done ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR, nullptr);
    }
    check_limit();
    if (moved != Moved::done) {
        delivery.result = moved == Moved::gone ? Delivered::unreachable
                          : source_pid == 0    ? Delivered::bad_buffer
                                               : Delivered::source_fault;
    }
    return delivery;
}

void Receiver::begin()
{
    const SharedGuard guard(queue_.lock, self_.token());
    RecvEntry entry;
    if (connected() && qp_.cut_wqe == kNone && take(entry)) {
        qp_.cut_wqe = entry.wqe;
    }
}

Delivered Receiver::announce(const Arrival& arrival)
{
    {
        const SharedGuard guard(queue_.lock, self_.token());
        RecvEntry entry;
        if (!connected()) {
            return Delivered::unreachable;
        }
        if (!take(entry)) {
            return Delivered::not_ready;
        }
        publish(arrival, entry.wqe, kLanded, IBV_WC_SUCCESS, nullptr);
    }
    check_limit();
    return Delivered::done;
}

namespace {

// The status of the receive; IBV_WC_SUCCESS also where the datagram is lost. None: no receive.
std::optional<ibv_wc_status> take_datagram(Process& self, Arena& owner, QpShared& qp,
                                           const Arrival& arrival, const std::uint8_t* grh,
                                           const SegmentList& source, std::uint64_t ready)
{
    RqShared& queue = owner.recv_queue(qp.recv_queue);
    const SharedGuard guard(queue.lock, self.token());
    const std::uint8_t state = qp.state.load(std::memory_order_relaxed);
    if (state < IBV_QPS_RTR || state > IBV_QPS_SQE) {
        return IBV_WC_SUCCESS;
    }
    std::uint32_t slot = kNoSlot;
    if (arrival.length > sizeof(Cqe::payload)) {
        slot = queue.free_slots.pop(owner, queue.slot_next);
        if (slot == kNone) {
            return IBV_WC_SUCCESS;
        }
    }
    RecvEntry entry;
    bool limit = false;
    if (!take_wqe(owner, queue, entry, limit)) {
        if (slot != kNoSlot) {
            queue.free_slots.push(owner, queue.slot_next, slot);
        }
        return std::nullopt;
    }
    const ibv_wc_status status = !is_covered(owner, queue, entry) ? IBV_WC_LOC_PROT_ERR
                                 : arrival.length > entry.length  ? IBV_WC_LOC_LEN_ERR
                                                                  : IBV_WC_SUCCESS;
    push_cqe(self, owner, qp.recv_cq, arrival.solicited || status != IBV_WC_SUCCESS,
             in_order(qp, ready), [&](Cqe& cqe) {
                 describe(cqe, owner, qp, arrival, entry.wqe, static_cast<std::uint16_t>(slot),
                          status);
                 std::uint8_t* to = slot == kNoSlot ? cqe.payload : slot_at(owner, queue, slot);
                 std::memcpy(to, grh, kGrhSize);
                 gather(to + kGrhSize, source);
             });
    if (limit) {
        raise_limit(self, owner, queue);
    }
    return status;
}

} // namespace

bool deliver_datagram(Process& self, Arena& owner, QpShared& qp, const Arrival& arrival,
                      const std::uint8_t* grh, const SegmentList& source, std::uint64_t ready)
{
    const auto status = take_datagram(self, owner, qp, arrival, grh, source, ready);
    // A receive that it does not fit into is an error of the queue pair, as with ConnectX HCAs.
    if (status.value_or(IBV_WC_SUCCESS) != IBV_WC_SUCCESS) {
        set_error_state(self, owner, qp);
    }
    return status.has_value();
}

bool has_receive(Process& self, Arena& owner, const QpShared& qp)
{
    RqShared& queue = owner.recv_queue(qp.recv_queue);
    const SharedGuard guard(queue.lock, self.token());
    return queue.head != queue.tail;
}

void set_error_state(Process& self, Arena& owner, QpShared& qp)
{
    RqShared& queue = owner.recv_queue(qp.recv_queue);
    bool was_working;
    {
        const SharedGuard guard(queue.lock, self.token());
        was_working = qp.state.exchange(IBV_QPS_ERR) != IBV_QPS_ERR;
        const auto flush = [&](std::uint32_t wqe) {
            push_cqe(self, owner, qp.recv_cq, true, qp.recv_ready, [&](Cqe& cqe) {
                describe(cqe, owner, qp, {.opcode = IBV_WC_RECV}, wqe, kLanded,
                         IBV_WC_WR_FLUSH_ERR);
            });
        };
        if (qp.cut_wqe != kNone) {
            flush(std::exchange(qp.cut_wqe, kNone));
        }
        if (!qp.has_srq) {
            RecvEntry entry;
            bool limit = false;
            while (take_wqe(owner, queue, entry, limit)) {
                flush(entry.wqe);
            }
        }
    }
    if (was_working && qp.has_srq && profile_of(qp.device).last_wqe) {
        raise_event(self, owner, qp.events, IBV_EVENT_QP_LAST_WQE_REACHED, index_of(owner, qp),
                    qp.number);
    }
}

void create_recv_queue(Process& self, RecvQueue& queue, std::uint32_t max_wr, std::uint32_t max_sge,
                       std::uint32_t pd, PipeRef events)
{
    const std::uint32_t entries = std::bit_ceil(std::max(max_wr, 1u));
    const std::uint32_t slots = std::clamp(max_wr, 16u, kMaxSlots);
    const auto stride =
        static_cast<std::uint32_t>(sizeof(RecvWqe) + std::max(max_sge, 1u) * sizeof(Sge));
    const std::uint64_t ring = 0;
    const std::uint64_t wqes = ring + entries * sizeof(RecvEntry);
    const std::uint64_t wqe_next = wqes + std::uint64_t{entries} * stride;
    const std::uint64_t slot_next = wqe_next + entries * sizeof(std::uint32_t);
    const std::uint64_t data = (slot_next + slots * sizeof(std::uint32_t) + 4095) & ~4095ull;
    queue.bytes = data + std::uint64_t{slots} * kSlotSize;
    queue.offset = self.allocate(queue.bytes);

    RqShared& shared = self.arena().recv_queue(queue.index);
    const SharedGuard guard(shared.lock, self.token());
    shared.pd = pd;
    shared.mask = entries - 1;
    shared.max_wr = max_wr;
    shared.max_sge = max_sge;
    shared.wqe_stride = stride;
    shared.ring = queue.offset + ring;
    shared.wqes = queue.offset + wqes;
    shared.wqe_next = queue.offset + wqe_next;
    shared.slot_next = queue.offset + slot_next;
    shared.slots = queue.offset + data;
    shared.events = events;
    shared.head = shared.tail = shared.peers_waiting = shared.limit = 0;
    shared.free_slots.clear();
    for (std::uint32_t slot = slots; slot-- > 0;) {
        shared.free_slots.push(self.arena(), shared.slot_next, slot);
    }
    shared.free_wqes.clear();
    for (std::uint32_t wqe = max_wr; wqe-- > 0;) {
        shared.free_wqes.push(self.arena(), shared.wqe_next, wqe);
    }
    shared.generation = next_generation(shared.generation);
}

void destroy_recv_queue(Process& self, RecvQueue& queue)
{
    {
        RqShared& shared = self.arena().recv_queue(queue.index);
        const SharedGuard guard(shared.lock, self.token());
        ++shared.generation;
    }
    self.await_peers();
    self.release(queue.offset, queue.bytes);
}

void reset_recv_queue(Process& self, RecvQueue& queue)
{
    RqShared& shared = self.arena().recv_queue(queue.index);
    const SharedGuard guard(shared.lock, self.token());
    RecvEntry entry;
    bool limit = false;
    while (take_wqe(self.arena(), shared, entry, limit)) {
        shared.free_wqes.push(self.arena(), shared.wqe_next, entry.wqe);
    }
}

namespace {

// What a receive has room for of which a list of keys is a part; kBadBuffer: a key is of nothing.
[[gnu::cold]] std::uint64_t listed_length(Arena& arena, const RqShared& queue, RecvWqe& wqe,
                                          const ibv_recv_wr& wr)
{
    for (std::uint32_t i = 0; i < wqe.num_sge; ++i) {
        wqe.sge[i] = {wr.sg_list[i].addr, wr.sg_list[i].length, wr.sg_list[i].lkey};
    }
    SegmentList list;
    if (!region_list(arena, queue.pd, wqe.sge, wqe.num_sge, IBV_ACCESS_LOCAL_WRITE, list)) {
        return kBadBuffer;
    }
    wqe.on_cuda = list.on_cuda;
    return std::min<std::uint64_t>(list.bytes, kBadBuffer - 1);
}

} // namespace

int post_recv_list(Process& self, std::uint32_t index, ibv_recv_wr* wr, ibv_recv_wr** bad,
                   bool& waiting)
{
    Arena& arena = self.arena();
    RqShared& queue = arena.recv_queue(index);
    const SharedGuard guard(queue.lock, self.token());
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > queue.max_sge) {
            error = EINVAL;
            break;
        }
        const std::uint32_t slot = queue.free_wqes.pop(arena, queue.wqe_next);
        if (slot == kNone) {
            error = ENOMEM;
            break;
        }
        RecvWqe& wqe = wqe_at(arena, queue, slot);
        wqe.wr_id = wr->wr_id;
        wqe.num_sge = static_cast<std::uint32_t>(wr->num_sge);
        wqe.on_cuda = false;
        std::uint64_t length = 0;
        const std::uint32_t deregistrations = arena.deregistrations.load(std::memory_order_acquire);
        for (std::uint32_t i = 0; i < wqe.num_sge; ++i) {
            const ibv_sge& sge = wr->sg_list[i];
            wqe.sge[i] = {sge.addr, sge.length, sge.lkey};
            if (sge.length != 0) {
                const MrShared* region = find_region(arena, sge.lkey, sge.addr, sge.length,
                                                     IBV_ACCESS_LOCAL_WRITE, queue.pd);
                if (region == nullptr) {
                    length = listed_length(arena, queue, wqe, *wr);
                    break;
                }
                wqe.on_cuda = wqe.on_cuda || region->cuda.owner != 0;
            }
            length = std::min<std::uint64_t>(length + sge.length, kBadBuffer - 1);
        }
        *arena.at<RecvEntry>(queue.ring, queue.tail & queue.mask) = {
            slot, static_cast<std::uint32_t>(length), deregistrations};
        ++queue.tail;
    }
    if (error != 0) {
        *bad = wr;
    }
    waiting = queue.peers_waiting != 0;
    return error;
}

} // namespace softhca
