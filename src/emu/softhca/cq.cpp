// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion queues: polling, which also lands small messages in their buffers, and arming.
#include "emu/softhca/cq.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/deferred.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/receive.hpp"
#include "emu/softhca/work_request.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softhca {
namespace {

// Returns a receive WQE, and the slot if one holds the payload, to their queue.
void give_back(Arena& arena, RqShared& queue, const Cqe& entry)
{
    queue.free_wqes.push(arena, queue.wqe_next, entry.wqe.load(std::memory_order_relaxed));
    if (entry.slot < kLanded) {
        queue.free_slots.push(arena, queue.slot_next, entry.slot);
    }
}

// Copies a message to where its WQE says; false when the buffer's registration is gone.
bool land(Arena& arena, QpShared& qp, RqShared& queue, const RecvWqe& wqe, const Cqe& entry)
{
    if (entry.byte_length == 0) {
        return true;
    }
    const bool in_entry = entry.slot == kNoSlot;
    const std::uint32_t length = entry.byte_length;
    if (length > (in_entry ? sizeof entry.payload : kSlotSize)) {
        return false;
    }
    const void* payload =
        in_entry ? entry.payload
                 : arena.at<std::uint8_t>(queue.slots + std::uint64_t{entry.slot} * kSlotSize);
    SegmentList target;
    if (!region_list(arena, queue.pd, wqe.sge, wqe.num_sge, IBV_ACCESS_LOCAL_WRITE, target) ||
        target.bytes < length) {
        return false;
    }
    if (!scatter(target, payload, length)) {
        return false;
    }
    if (target.device_bytes != 0) {
        qp.bytes_to_device.fetch_add(std::min<std::uint64_t>(target.device_bytes, length),
                                     std::memory_order_relaxed);
    }
    return true;
}

// Whether the poller has taken the message, so that it need not land.
bool give(const QpShared& qp, const Cqe& entry, Payload* to)
{
    if (to == nullptr || entry.slot != kNoSlot || entry.byte_length > qp.poller_takes ||
        entry.byte_length > sizeof to->bytes) {
        return false;
    }
    to->length = entry.byte_length;
    std::memcpy(to->bytes, entry.payload, entry.byte_length);
    return true;
}

void take_receive(Process& self, const Cqe& entry, ibv_wc& wc, Payload* payload)
{
    Arena& arena = self.arena();
    QpShared& qp = arena.qp(entry.qp);
    RqShared& queue = arena.recv_queue(qp.recv_queue);
    const std::uint32_t index = entry.wqe.load(std::memory_order_relaxed);
    const RecvWqe& wqe = *arena.at<RecvWqe>(queue.wqes + std::uint64_t{index} * queue.wqe_stride);
    wc.wr_id = wqe.wr_id;
    wc.imm_data = entry.immediate;
    wc.src_qp = entry.source_qp;
    wc.wc_flags = entry.flags;
    wc.slid = entry.source_lid;
    wc.sl = entry.service_level;
    if (entry.status == IBV_WC_SUCCESS && entry.slot != kLanded && !give(qp, entry, payload) &&
        !land(arena, qp, queue, wqe, entry)) {
        wc.status = IBV_WC_LOC_PROT_ERR;
    }
    give_back(arena, queue, entry);
}

// Threads that share a completion queue have a lock around their polls, which the others must not
// find taken for as long as a processor is somebody else's.
bool is_polled_by_threads(Cq& cq)
{
    thread_local const char this_thread = 0;
    const auto poller = reinterpret_cast<std::uintptr_t>(&this_thread);
    std::uintptr_t before = cq.empty_poller.load(std::memory_order_relaxed);
    if (before == 0 &&
        cq.empty_poller.compare_exchange_strong(before, poller, std::memory_order_relaxed)) {
        return false;
    }
    if (before == poller) {
        return false;
    }
    cq.empty_poller.store(Cq::kManyThreads, std::memory_order_relaxed);
    return true;
}

// A program that polls in vain for long may keep the peer it waits for from running: there can be
// more of them than processors.
void yield_when_idle(Cq& cq)
{
    constexpr std::uint32_t patience = 2000, interval = 50;
    if (is_polled_by_threads(cq)) {
        return;
    }
    const std::uint32_t polls = cq.empty_polls.load(std::memory_order_relaxed) + 1;
    if (polls < patience) {
        cq.empty_polls.store(polls, std::memory_order_relaxed);
    } else {
        cq.empty_polls.store(patience - interval, std::memory_order_relaxed);
        sched_yield();
    }
}

void take_send(Process& self, const Cqe& entry, ibv_wc& wc)
{
    wc.wr_id = entry.id;
    self.arena().qp(entry.qp).reclaimed.store(entry.wqe.load(std::memory_order_relaxed) + 1,
                                              std::memory_order_relaxed);
}

// What is due so soon is waited for: until the application has come back it would be late.
constexpr std::uint64_t kSoon = 200; // ns

// `now` is read when it is needed first.
bool is_due(const Cqe& entry, std::uint64_t& now)
{
    if (entry.ready > now && now == 0) {
        now = now_ns();
    }
    while (entry.ready > now && entry.ready - now < kSoon) {
        now = now_ns();
    }
    return entry.ready <= now;
}

// Entries of the longest ring.
constexpr std::uint64_t kMaxRing = 2 * std::uint64_t{kMaxCqe};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

// The time of the first entry before `end` that has not been polled, 0 if it has none.
std::uint64_t earliest(Arena& arena, const CqShared& cq, std::uint64_t end, bool solicited_only)
{
    std::uint64_t result = kNever;
    const std::uint64_t head = cq.head.load(std::memory_order_acquire);
    end = std::min(end, head + kMaxRing);
    for (std::uint64_t at = head; at < end && result != 0; ++at) {
        const Cqe& entry = *arena.at<Cqe>(cq.ring, at & cq.mask);
        if ((entry.kind == CqeKind::send || entry.kind == CqeKind::receive) &&
            (entry.solicited || !solicited_only)) {
            result = std::min(result, entry.ready);
        }
    }
    return result;
}

} // namespace

int poll_cq(ibv_cq* base, int count, ibv_wc* wc)
{
    Cq& cq = object_of<Cq>(base);
    const OneThreadGuard one_thread(cq.one_thread, "CQ");
    return take_completions(cq, count, wc);
}

int take_completions(Cq& cq, int count, ibv_wc* wc, Payload* payloads)
{
    Process& self = *context_of(cq.base.context).process;
    Arena& arena = self.arena();
    CqShared& shared = arena.cq(cq.index);
    if (cq.is_deferring.load(std::memory_order_relaxed)) {
        retire_deferred(self, cq, false);
    }
    Cqe* ring = cq.ring.load(std::memory_order_relaxed);
    std::uint64_t head = shared.head.load(std::memory_order_relaxed);
    if (ring[head & cq.mask].sequence.load(std::memory_order_acquire) !=
        static_cast<std::uint32_t>(head + 1)) {
        yield_when_idle(cq);
        return 0;
    }
    cq.empty_polls.store(0, std::memory_order_relaxed);
    int polled = 0;
    std::uint32_t failed = kNone;
    // Entries whose time has not come stay, those behind them of other queue pairs may go.
    bool some_stay = false;
    std::uint64_t stays = 0, now = 0;
    cq.poll_lock.lock();
    ring = cq.ring.load(std::memory_order_relaxed);
    head = shared.head.load(std::memory_order_relaxed);
    for (; polled < count; ++head) {
        Cqe& entry = ring[head & cq.mask];
        if (entry.sequence.load(std::memory_order_acquire) !=
            static_cast<std::uint32_t>(head + 1)) {
            break;
        }
        if (entry.kind == CqeKind::none) {
            continue;
        }
        if (entry.kind == CqeKind::write) {
            const Applied applied = apply_write(self, entry, head);
            if (applied == Applied::blocked) {
                break;
            }
            if (applied == Applied::refused) {
                failed = entry.qp;
            }
            if (some_stay) {
                entry.kind = CqeKind::none;
            }
            continue;
        }
        if (!is_due(entry, now)) {
            if (!some_stay) {
                some_stay = true;
                stays = head;
            }
            continue;
        }
        Payload* const payload = payloads == nullptr ? nullptr : &payloads[polled];
        ibv_wc& result = wc[polled++];
        result.status = entry.status;
        result.opcode = static_cast<ibv_wc_opcode>(entry.opcode);
        result.vendor_err = 0;
        result.byte_len = entry.byte_length;
        result.qp_num = arena.qp(entry.qp).number;
        result.wc_flags = 0;
        result.pkey_index = 0;
        result.sl = 0;
        result.dlid_path_bits = 0;
        if (entry.kind == CqeKind::receive) {
            take_receive(self, entry, result, payload);
            if (result.status == IBV_WC_LOC_PROT_ERR) {
                failed = entry.qp;
            }
        } else {
            take_send(self, entry, result);
        }
        if (some_stay) {
            entry.kind = CqeKind::none;
        }
    }
    shared.taken.store(shared.taken.load(std::memory_order_relaxed) + static_cast<unsigned>(polled),
                       std::memory_order_release);
    shared.head.store(some_stay ? stays : head, std::memory_order_release);
    cq.poll_lock.unlock();
    self.completions.fetch_add(static_cast<unsigned>(polled), std::memory_order_relaxed);
    if (failed != kNone) {
        fail_qp(self, failed);
    }
    return polled;
}

int req_notify_cq(ibv_cq* base, int solicited_only)
{
    Cq& cq = object_of<Cq>(base);
    Process& self = *context_of(base->context).process;
    const OneThreadGuard one_thread(cq.one_thread, "CQ");
    CqShared& shared = self.arena().cq(cq.index);
    retire_deferred(self, cq, true);
    PipeRef channel{};
    bool postponed = false;
    const CqNotice notice{cq.index, shared.generation};
    {
        const SharedGuard guard(shared.lock, self.token());
        // An event for what has arrived and not been polled comes at once: the application may
        // have looked before the entry was there and go to sleep now.
        const std::uint64_t latest = solicited_only ? shared.last_solicited : shared.last_visible;
        const std::uint64_t ready = earliest(self.arena(), shared, latest, solicited_only != 0);
        if (ready <= now_ns()) {
            channel = disarm(shared);
        } else {
            shared.armed = solicited_only ? std::max(shared.armed, 1u) : 2;
            postponed = ready != kNever && postpone(shared, ready);
        }
    }
    self.write_pipe(self.token(), channel, &notice, sizeof notice);
    if (postponed) {
        ring_doorbell(self.arena());
    }
    return 0;
}

std::uint64_t ring_channels(Process& self)
{
    std::uint64_t next = 0;
    for (std::uint32_t index = 0; index < self.cq_indices.used(); ++index) {
        CqShared& cq = self.arena().cq(index);
        if (cq.wake_at.load(std::memory_order_relaxed) == 0) {
            continue;
        }
        PipeRef channel{};
        CqNotice notice;
        {
            const SharedGuard guard(cq.lock, self.token());
            const std::uint64_t at = cq.wake_at.load(std::memory_order_relaxed);
            if (at == 0) {
                continue;
            }
            if (at <= now_ns()) {
                notice = {index, cq.generation};
                channel = disarm(cq);
            } else {
                next = sooner(next, at);
            }
        }
        self.write_pipe(self.token(), channel, &notice, sizeof notice);
    }
    return next;
}

void report_overrun(Process& self, Arena& owner, std::uint32_t index)
{
    const CqShared& cq = owner.cq(index);
    raise_event(self, owner, cq.events, IBV_EVENT_CQ_ERR, index, cq.generation);
}

void purge_cq(Process& self, Cq& object, std::uint32_t qp_index)
{
    const OneThreadGuard one_thread(object.one_thread, "CQ");
    Arena& arena = self.arena();
    CqShared& cq = arena.cq(object.index);
    const std::lock_guard<PrivateLock> consumer(object.poll_lock);
    const SharedGuard guard(cq.lock, self.token());
    const std::uint64_t head = cq.head.load();
    const std::uint64_t end = std::min(cq.tail, head + kMaxRing);
    std::uint64_t taken = cq.taken.load();
    for (std::uint64_t at = head; at < end; ++at) {
        Cqe& entry = *arena.at<Cqe>(cq.ring, at & cq.mask);
        if (entry.qp != qp_index || entry.kind == CqeKind::none) {
            continue;
        }
        taken += entry.kind == CqeKind::send || entry.kind == CqeKind::receive;
        if (entry.kind == CqeKind::receive) {
            give_back(arena, arena.recv_queue(arena.qp(qp_index).recv_queue), entry);
        }
        if (entry.kind == CqeKind::write && entry.slot != kNoSlot && is_pending(entry)) {
            RqShared& queue = arena.recv_queue(arena.qp(qp_index).recv_queue);
            queue.free_slots.push(arena, queue.slot_next, entry.slot);
        }
        entry.kind = CqeKind::none;
    }
    cq.taken.store(taken);
}

namespace {

// Entries of a ring: those asked for, and some for deferred writes.
std::uint32_t ring_entries(int cqe)
{
    return std::bit_ceil(static_cast<std::uint32_t>(cqe) + 32);
}

// The offset of a CQ's ring, as this process has it.
std::uint64_t ring_of(const Arena& arena, const Cq& cq)
{
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(cq.ring.load()) -
                                      reinterpret_cast<const char*>(&arena));
}

std::uint64_t create_ring(Process& self, std::uint32_t entries, std::size_t& bytes)
{
    bytes = std::size_t{entries} * sizeof(Cqe);
    return self.allocate(bytes);
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                  int comp_vector)
{
    if (is_stale(context) || cqe < 1 ||
        static_cast<std::uint32_t>(cqe) > profile_of(context_of(context).device).max_cqe ||
        comp_vector < 0 || comp_vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return nullptr;
    }
    Process& self = *context_of(context).process;
    auto cq = std::unique_ptr<Cq>(new (std::nothrow) Cq{});
    const std::uint32_t index = cq == nullptr ? kNone : self.cq_indices.allocate();
    if (index == kNone) {
        errno = ENOMEM;
        return nullptr;
    }
    const std::uint32_t entries = ring_entries(cqe);
    std::uint64_t ring;
    try {
        ring = create_ring(self, entries, cq->ring_bytes);
    } catch (const std::bad_alloc&) {
        self.cq_indices.release(index);
        errno = ENOMEM;
        return nullptr;
    }
    CqShared& shared = self.arena().cq(index);
    {
        const SharedGuard guard(shared.lock, self.token());
        shared.mask = entries - 1;
        shared.ring = ring;
        shared.armed = 0;
        shared.wake_at.store(0);
        shared.length = static_cast<std::uint32_t>(cqe);
        shared.spare = entries - shared.length;
        shared.visible = shared.seen_taken = 0;
        shared.taken.store(0);
        shared.tail = shared.seen_head = shared.last_visible = shared.last_solicited = 0;
        shared.head.store(0);
        shared.overrun = false;
        shared.channel =
            channel == nullptr ? PipeRef{} : object_of<Channel>(channel).pipe.write_end;
        shared.events = context_of(context).async.write_end;
        shared.generation = next_generation(shared.generation);
    }
    cq->index = index;
    cq->ring.store(self.arena().at<Cqe>(ring));
    cq->mask = entries - 1;
    cq->base.context = context;
    cq->base.channel = channel;
    cq->base.cq_context = cq_context;
    cq->base.handle = index;
    cq->base.cqe = cqe;
    pthread_mutex_init(&cq->base.mutex, nullptr);
    pthread_cond_init(&cq->base.cond, nullptr);
    if (channel != nullptr) {
        pthread_mutex_lock(&context->mutex);
        ++channel->refcnt;
        pthread_mutex_unlock(&context->mutex);
    }
    context_of(context).children.fetch_add(1);
    set_cq(index, cq.get());
    return &cq.release()->base;
}

int resize_cq(ibv_cq* base, int cqe)
{
    const Profile& profile = profile_of(context_of(base->context).device);
    const int sign = profile.negative_errno ? -1 : 1;
    switch (profile.resize_cq) {
    case ResizeCq::works:
        break;
    case ResizeCq::is_missing:
        return sign * EOPNOTSUPP;
    case ResizeCq::faults:
        return sign * EFAULT;
    case ResizeCq::frees_ring: // and goes on writing there, and frees it again with the CQ
        object_of<Cq>(base).has_lost_ring = true;
        return sign * EOPNOTSUPP;
    case ResizeCq::does_nothing:
        return 0;
    }
    if (is_stale(base->context) || cqe < 1 || static_cast<std::uint32_t>(cqe) > profile.max_cqe) {
        return sign * EINVAL;
    }
    Cq& cq = object_of<Cq>(base);
    Process& self = *context_of(base->context).process;
    Arena& arena = self.arena();
    CqShared& shared = arena.cq(cq.index);
    const std::uint32_t entries = ring_entries(cqe);
    std::size_t bytes;
    std::uint64_t ring;
    try {
        ring = create_ring(self, entries, bytes);
    } catch (const std::bad_alloc&) {
        return sign * ENOMEM;
    }
    std::uint64_t former;
    cq.poll_lock.lock();
    {
        const SharedGuard guard(shared.lock, self.token());
        const std::uint64_t head = shared.head.load();
        former = ring_of(arena, cq);
        if (shared.visible - shared.taken.load() > static_cast<std::uint32_t>(cqe) ||
            shared.tail - head > entries) {
            former = ring;
        } else {
            for (std::uint64_t at = head; at != shared.tail; ++at) {
                std::memcpy(static_cast<void*>(arena.at<Cqe>(ring, at & (entries - 1))),
                            arena.at<Cqe>(former, at & cq.mask), sizeof(Cqe));
            }
            shared.ring = ring;
            shared.mask = cq.mask = entries - 1;
            cq.ring.store(arena.at<Cqe>(ring));
            shared.seen_head = head;
            std::swap(bytes, cq.ring_bytes);
            shared.length = static_cast<std::uint32_t>(cqe);
            shared.spare = entries - shared.length;
            base->cqe = cqe;
        }
    }
    cq.poll_lock.unlock();
    self.release(former, bytes);
    return former == ring ? sign * EINVAL : 0;
}

int destroy_cq(ibv_cq* base)
{
    if (is_stale(base->context)) {
        return 0;
    }
    Cq& cq = object_of<Cq>(base);
    if (cq.children.load() != 0) {
        return EBUSY;
    }
    if (cq.has_lost_ring) {
        std::fputs("softhca: a completion queue's memory is freed twice: this HCA's ibv_resize_cq "
                   "freed it, too\n",
                   stderr);
        std::abort();
    }
    Process& self = *context_of(base->context).process;
    CqShared& shared = self.arena().cq(cq.index);
    {
        const SharedGuard guard(shared.lock, self.token());
        ++shared.generation;
        disarm(shared);
    }
    set_cq(cq.index, nullptr);
    await_acknowledged(base->mutex, base->cond, base->comp_events_completed, cq.events_delivered);
    await_acknowledged(base->mutex, base->cond, base->async_events_completed, cq.async_delivered);
    self.release(ring_of(self.arena(), cq), cq.ring_bytes);
    self.cq_indices.release(cq.index);
    if (base->channel != nullptr) {
        pthread_mutex_lock(&base->context->mutex);
        --base->channel->refcnt;
        pthread_mutex_unlock(&base->context->mutex);
    }
    context_of(base->context).children.fetch_sub(1);
    if (cq.parent_domain != nullptr) {
        cq.parent_domain->children.fetch_sub(1);
    }
    delete &cq;
    return 0;
}

} // namespace softhca
