// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Queue pairs: creation, the state machine with its attribute masks, query and destruction.
#include "emu/softhca/channel.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/multicast.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/receive.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

namespace softhca {
namespace {

// Any value of the byte is one of the states.
ibv_qp_state state_of(const QpShared& qp)
{
    return static_cast<ibv_qp_state>(std::min<unsigned>(qp.state.load(), IBV_QPS_ERR));
}

// What a transition of the state machine requires and allows besides IBV_QP_STATE. There are no
// alternate paths.
struct Transition {
    ibv_qp_type type;
    ibv_qp_state from, to;
    int required, optional;
};

constexpr Transition kTransitions[] = {
    {IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CUR_STATE |
         IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {kDci, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, IBV_QP_ACCESS_FLAGS},
    {kDci, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {kDci, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX | IBV_QP_AV},
    {kDci, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_SQ_PSN | IBV_QP_CUR_STATE},
    {kDci, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE},
    {kDct, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {kDct, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

bool is_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask)
{
    mask &= ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        return mask == 0 || mask == IBV_QP_CUR_STATE;
    }
    for (const Transition& transition : kTransitions) {
        if (transition.type == type && transition.from == from && transition.to == to) {
            return (mask & transition.required) == transition.required &&
                   (mask & ~(transition.required | transition.optional)) == 0;
        }
    }
    return false;
}

bool is_valid(const Context& context, const Profile& profile, const ibv_qp_attr& attributes,
              int mask)
{
    return ((mask & IBV_QP_PORT) == 0 || context.has_port(attributes.port_num)) &&
           ((mask & IBV_QP_PKEY_INDEX) == 0 || attributes.pkey_index < profile.pkeys.size()) &&
           ((mask & IBV_QP_TIMEOUT) == 0 || attributes.timeout < 32) &&
           ((mask & IBV_QP_RETRY_CNT) == 0 || attributes.retry_cnt < 8) &&
           ((mask & IBV_QP_RNR_RETRY) == 0 || attributes.rnr_retry < 8) &&
           ((mask & IBV_QP_MIN_RNR_TIMER) == 0 || attributes.min_rnr_timer < 32) &&
           ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0 || attributes.max_rd_atomic <= profile.rd_atom) &&
           ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0 ||
            attributes.max_dest_rd_atomic <= profile.rd_atom) &&
           ((mask & IBV_QP_AV) == 0 || is_valid_address(context, attributes.ah_attr)) &&
           ((mask & IBV_QP_PATH_MTU) == 0 ||
            (attributes.path_mtu >= IBV_MTU_256 && attributes.path_mtu <= IBV_MTU_4096));
}

// The port that it sends and receives by. The caller has its lock.
void set_port(Process& self, Qp& qp, QpShared& shared, unsigned device)
{
    shared.device = static_cast<std::uint8_t>(device);
    qp.fault_number = enlist_qp(device, shared);
    shared.port_lid = static_cast<std::uint16_t>(self.arena().port_lid[device]);
    shared.told_lid = shared.type == kDci ? shared.port_lid : std::uint16_t{0};
}

// Takes over what the mask names: into the shared state, and for ibv_query_qp.
void apply(Qp& qp, QpShared& shared, const ibv_qp_attr& from, int mask)
{
    ibv_qp_attr& to = qp.attributes;
    const auto take = [mask](int bit, auto& target, const auto& value) {
        if ((mask & bit) != 0) {
            target = value;
        }
    };
    take(IBV_QP_PKEY_INDEX, to.pkey_index, from.pkey_index);
    take(IBV_QP_PORT, to.port_num, from.port_num);
    take(IBV_QP_PATH_MTU, to.path_mtu, from.path_mtu);
    take(IBV_QP_RQ_PSN, to.rq_psn, from.rq_psn);
    take(IBV_QP_SQ_PSN, to.sq_psn, from.sq_psn);
    take(IBV_QP_MAX_QP_RD_ATOMIC, shared.max_rd_atomic, from.max_rd_atomic);
    take(IBV_QP_MAX_DEST_RD_ATOMIC, shared.max_dest_rd_atomic, from.max_dest_rd_atomic);
    take(IBV_QP_ACCESS_FLAGS, shared.access, from.qp_access_flags);
    take(IBV_QP_QKEY, shared.qkey, from.qkey);
    take(IBV_QP_TIMEOUT, shared.timeout, from.timeout);
    take(IBV_QP_RETRY_CNT, shared.retry_count, from.retry_cnt);
    take(IBV_QP_RNR_RETRY, shared.rnr_retry, from.rnr_retry);
    take(IBV_QP_MIN_RNR_TIMER, shared.min_rnr_timer, from.min_rnr_timer);
    take(IBV_QP_DEST_QPN, shared.destination, from.dest_qp_num & 0xffffff);
    if ((mask & IBV_QP_AV) != 0) {
        to.ah_attr = from.ah_attr;
        set_address(shared, from.ah_attr);
    }
}

void reset(Process& self, Qp& qp, QpShared& shared)
{
    {
        std::optional<OneThreadGuard> one_thread;
        if (qp.srq != nullptr) {
            one_thread.emplace(qp.srq->one_thread, "SRQ");
        }
        const SharedGuard guard(self.arena().recv_queue(shared.recv_queue).lock, self.token());
        shared.state.store(IBV_QPS_RESET);
        ++shared.epoch;
        shared.peer_waiting = false;
        shared.destination = 0;
        if (shared.cut_wqe != kNone) { // free for the HCA; nobody tells the program
            RqShared& queue = self.arena().recv_queue(shared.recv_queue);
            queue.free_wqes.push(self.arena(), queue.wqe_next,
                                 std::exchange(shared.cut_wqe, kNone));
        }
    }
    if (!shared.has_srq) {
        reset_recv_queue(self, qp.queue);
    }
    purge_cq(self, object_of<Cq>(qp.base.send_cq), qp.index);
    purge_cq(self, object_of<Cq>(qp.base.recv_cq), qp.index);
    shared.sq_head = shared.sq_next = shared.sq_tail;
    shared.reclaimed.store(shared.posted);
    shared.wait = Wait::none;
    shared.peer_token = 0;
    shared.write_status.store(0);
}

// Cuts down what the HCA grants less of than asked for.
int check_capabilities(const Profile& profile, ibv_qp_init_attr& init)
{
    const bool is_dc = init.qp_type == kDci || init.qp_type == kDct;
    const bool is_connected = init.qp_type == IBV_QPT_RC || init.qp_type == IBV_QPT_UC;
    const bool has_type =
        is_dc || (is_connected && profile.rc) || (init.qp_type == IBV_QPT_UD && profile.ud);
    if (!has_type) {
        return EOPNOTSUPP;
    }
    ibv_qp_cap& cap = init.cap;
    if (profile.grants_less_inline) {
        cap.max_inline_data = std::min(cap.max_inline_data, profile.max_inline);
    }
    if (init.send_cq == nullptr || init.recv_cq == nullptr || cap.max_send_wr > profile.max_qp_wr ||
        cap.max_recv_wr > profile.max_qp_wr || cap.max_send_sge > profile.max_sge ||
        cap.max_recv_sge > profile.max_sge || cap.max_inline_data > profile.max_inline) {
        return EINVAL;
    }
    return 0;
}

int check_address(unsigned device, const ibv_qp_attr& attributes, int mask)
{
    if ((mask & IBV_QP_AV) == 0) {
        return 0;
    }
    const ibv_ah_attr& address = attributes.ah_attr;
    if (address.is_global && address.grh.sgid_index < kGids &&
        profile_of(device).gids[address.grh.sgid_index].is_foreign) {
        return ENODEV;
    }
    return resolve(device, address);
}

// A queue pair may not allow atomics, or to no avail.
int check_atomics(const Profile& profile, ibv_qp_attr& attributes, int mask)
{
    if ((mask & IBV_QP_ACCESS_FLAGS) == 0 ||
        (attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) == 0) {
        return 0;
    }
    if (profile.atomics == Atomics::refused) {
        return EOPNOTSUPP;
    }
    if (profile.atomics == Atomics::none) {
        attributes.qp_access_flags &= ~static_cast<unsigned>(IBV_ACCESS_REMOTE_ATOMIC);
    }
    return 0;
}

} // namespace

void set_address(QpShared& shared, const ibv_ah_attr& address)
{
    shared.destination_lid = address.is_global ? 0 : address.dlid;
    std::memset(shared.destination_gid, 0, sizeof shared.destination_gid);
    if (address.is_global) {
        std::memcpy(shared.destination_gid, address.grh.dgid.raw, 16);
    }
    shared.peer_token = 0;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr& init, std::uint64_t dc_key)
{
    if (const int error =
            is_stale(pd->context)
                ? EINVAL
                : check_capabilities(profile_of(context_of(pd->context).device), init)) {
        errno = error;
        return nullptr;
    }
    Context& context = context_of(pd->context);
    Process& self = *context.process;
    auto qp = std::unique_ptr<Qp>(new (std::nothrow) Qp{});
    const std::uint32_t index = qp == nullptr ? kNone : self.qp_indices.allocate();
    if (index == kNone) {
        errno = ENOMEM;
        return nullptr;
    }
    if (init.srq != nullptr) {
        init.cap.max_recv_wr = 0;
        init.cap.max_recv_sge = 0;
    }
    qp->index = qp->queue.index = index;
    const std::uint32_t entries = std::bit_ceil(std::max(init.cap.max_send_wr, 1u));
    const auto stride = static_cast<std::uint32_t>(
        (sizeof(SendWqe) +
         std::max<std::size_t>(init.cap.max_send_sge * sizeof(Sge), init.cap.max_inline_data) +
         63) &
        ~63ull);
    qp->sq_bytes = std::size_t{entries} * stride;
    const std::uint32_t number = self.allocate_qp_number(index);
    bool allocated = false;
    try {
        if (number == 0) {
            throw std::bad_alloc();
        }
        qp->sq_offset = self.allocate(qp->sq_bytes);
        allocated = true;
        if (init.srq == nullptr) {
            create_recv_queue(self, qp->queue, init.cap.max_recv_wr, init.cap.max_recv_sge,
                              object_of<Pd>(pd).id, {});
        }
    } catch (const std::bad_alloc&) {
        if (allocated) {
            self.release(qp->sq_offset, qp->sq_bytes);
        }
        if (number != 0) {
            self.release_qp_number(number);
        }
        self.qp_indices.release(index);
        errno = ENOMEM;
        return nullptr;
    }
    QpShared& shared = self.arena().qp(index);
    qp->srq = init.srq == nullptr ? nullptr : &object_of<Srq>(init.srq);
    {
        const SharedGuard guard(shared.lock, self.token());
        shared.type = static_cast<std::uint8_t>(init.qp_type);
        shared.state.store(IBV_QPS_RESET);
        ++shared.epoch;
        set_port(self, *qp, shared, context.device);
        shared.sig_all = init.sq_sig_all != 0;
        shared.wait = Wait::none;
        shared.has_srq = init.srq != nullptr;
        shared.pd = object_of<Pd>(pd).id;
        shared.access = shared.qkey = shared.destination = 0;
        shared.dc_key = dc_key;
        shared.max_dest_rd_atomic =
            init.qp_type == kDct ? static_cast<std::uint8_t>(profile_of(context.device).rd_atom)
                                 : 0;
        shared.peer_token = 0;
        shared.send_cq = object_of<Cq>(init.send_cq).index;
        shared.recv_cq = object_of<Cq>(init.recv_cq).index;
        shared.recv_queue = qp->srq == nullptr ? qp->queue.index : qp->srq->queue.index;
        shared.events = context.async.write_end;
        shared.max_send_wr = init.cap.max_send_wr;
        shared.max_send_sge = init.cap.max_send_sge;
        shared.max_inline = init.cap.max_inline_data;
        shared.sq_mask = entries - 1;
        shared.sq_stride = stride;
        shared.sq_ring = qp->sq_offset;
        shared.sq_head = shared.sq_next = shared.sq_tail = 0;
        shared.posted = 0;
        shared.reclaimed.store(0);
        shared.peer_waiting = false;
        shared.cut_wqe = kNone;
        shared.write_status.store(0);
        // Nobody tells an unreliable requester whether they were applied.
        shared.direct_writes = init.qp_type == IBV_QPT_UC ? ~0u : 0;
        shared.send_ready = shared.read_ready = shared.recv_ready = 0;
        shared.deferring = false;
        shared.watched = shared.copying = false;
        shared.poller_takes = 0;
        shared.number = number;
    }
    if (qp->srq != nullptr) {
        const std::lock_guard<std::mutex> guard(qp->srq->mutex);
        qp->srq->attached.push_back(index);
        qp->srq->children.fetch_add(1);
    }
    object_of<Cq>(init.send_cq).children.fetch_add(1);
    object_of<Cq>(init.recv_cq).children.fetch_add(1);
    object_of<Pd>(pd).children.fetch_add(1);
    qp->cap = init.cap;
    qp->base.context = pd->context;
    qp->base.qp_context = init.qp_context;
    qp->base.pd = pd;
    qp->base.send_cq = init.send_cq;
    qp->base.recv_cq = init.recv_cq;
    qp->base.srq = init.srq;
    qp->base.handle = index;
    qp->base.qp_num = number;
    qp->base.state = IBV_QPS_RESET;
    qp->base.qp_type = init.qp_type;
    pthread_mutex_init(&qp->base.mutex, nullptr);
    pthread_cond_init(&qp->base.cond, nullptr);
    set_qp(index, qp.get());
    self.queue_pairs_created.fetch_add(1);
    if (object_of<Pd>(pd).is_for_one_thread()) {
        qp->one_thread.promise();
        self.thread_domain_queues.fetch_add(1);
    }
    return &qp.release()->base;
}

void leave_to_poller(ibv_qp* qp, std::uint8_t length)
{
    context_of(qp->context).process->arena().qp(object_of<Qp>(qp).index).poller_takes = length;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad)
{
    const OneThreadGuard one_thread(object_of<Qp>(qp).one_thread, "QP");
    return post_send_list(*context_of(qp->context).process, object_of<Qp>(qp), wr, bad);
}

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad)
{
    const Qp& qp = object_of<Qp>(base);
    Process& self = *context_of(base->context).process;
    QpShared& shared = self.arena().qp(qp.index);
    if (qp.srq != nullptr || shared.state.load() == IBV_QPS_RESET) {
        *bad = wr;
        return EINVAL;
    }
    bool waiting = false;
    const int error = post_recv_list(self, qp.queue.index, wr, bad, waiting);
    if (waiting) {
        serve_waiting_peers(self, qp.queue.index, &qp.index, 1);
    }
    if (shared.state.load() == IBV_QPS_ERR) {
        set_error_state(self, self.arena(), shared); // flushes
    }
    return error;
}

void receives_are_posted(const Context& context, std::uint64_t as_of)
{
    context.process->arena().looked.store(as_of, std::memory_order_release);
}

int modify_qp(ibv_qp* base, ibv_qp_attr* given, int mask)
{
    if (is_stale(base->context)) {
        return EINVAL;
    }
    Qp& qp = object_of<Qp>(base);
    const OneThreadGuard one_thread(qp.one_thread, "QP");
    Process& self = *context_of(base->context).process;
    QpShared& shared = self.arena().qp(qp.index);
    ibv_qp_attr attributes = *given;
    const Context& context = context_of(base->context);
    const bool gets_port = (mask & IBV_QP_PORT) != 0 && context.has_port(attributes.port_num);
    const unsigned device =
        gets_port ? context.device_of(attributes.port_num) : unsigned{shared.device};
    modify_slowly(device);
    if (const int error = check_address(device, attributes, mask)) {
        return error;
    }
    if (const int error = check_atomics(profile_of(device), attributes, mask)) {
        return error;
    }
    ibv_qp_state from, to;
    {
        const SharedGuard guard(shared.lock, self.token());
        from = state_of(shared);
        if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != from) {
            return EINVAL;
        }
        to = (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : from;
        if (!is_allowed(base->qp_type, from, to, mask) ||
            !is_valid(context, profile_of(device), attributes, mask)) {
            return EINVAL;
        }
        if (device != shared.device) {
            set_port(self, qp, shared, device);
        }
        if ((mask & IBV_QP_AV) != 0 || to == IBV_QPS_SQD) {
            settle_send_queue(self, qp.index);
        }
        apply(qp, shared, attributes, mask);
        if (to == IBV_QPS_RESET) {
            settle_send_queue(self, qp.index);
            reset(self, qp, shared);
        } else if (to != IBV_QPS_ERR) {
            const SharedGuard state_guard(self.arena().recv_queue(shared.recv_queue).lock,
                                          self.token());
            // A peer may have brought the QP into the error state meanwhile.
            std::uint8_t expected = static_cast<std::uint8_t>(from);
            if (!shared.state.compare_exchange_strong(expected, static_cast<std::uint8_t>(to))) {
                return EINVAL;
            }
        }
    }
    base->state = to;
    if (to == IBV_QPS_ERR) {
        fail_qp(self, qp.index);
    } else if (to == IBV_QPS_RTR && from == IBV_QPS_INIT && base->qp_type == IBV_QPT_RC) {
        wake_peer(self, qp.index); // it may have tried before
    } else if (to == IBV_QPS_RTS && from == IBV_QPS_SQD) {
        run_send_queue(self, self.arena(), qp.index);
    } else if (to == IBV_QPS_SQD && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 &&
               attributes.en_sqd_async_notify != 0) {
        // What had begun has ended: there is nothing to wait for.
        raise_event(self, self.arena(), shared.events, IBV_EVENT_SQ_DRAINED, qp.index,
                    base->qp_num);
    }
    return 0;
}

int query_qp(ibv_qp* base, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init)
{
    if (is_stale(base->context)) {
        return EINVAL;
    }
    const Qp& qp = object_of<Qp>(base);
    Process& self = *context_of(base->context).process;
    QpShared& shared = self.arena().qp(qp.index);
    {
        const SharedGuard guard(shared.lock, self.token());
        *attributes = qp.attributes;
        attributes->qp_state = state_of(shared);
        attributes->qp_access_flags = shared.access;
        attributes->qkey = shared.qkey;
        attributes->dest_qp_num = shared.destination;
        attributes->timeout = shared.timeout;
        attributes->retry_cnt = shared.retry_count;
        attributes->rnr_retry = shared.rnr_retry;
        attributes->min_rnr_timer = shared.min_rnr_timer;
        attributes->max_rd_atomic = shared.max_rd_atomic;
        attributes->max_dest_rd_atomic = shared.max_dest_rd_atomic;
    }
    attributes->cur_qp_state = attributes->qp_state;
    attributes->path_mig_state = IBV_MIG_MIGRATED;
    attributes->cap = qp.cap;
    base->state = attributes->qp_state;
    *init = {};
    init->qp_context = base->qp_context;
    init->send_cq = base->send_cq;
    init->recv_cq = base->recv_cq;
    init->srq = base->srq;
    init->cap = qp.cap;
    init->qp_type = base->qp_type;
    init->sq_sig_all = shared.sig_all;
    return 0;
}

int destroy_qp(ibv_qp* base)
{
    if (is_stale(base->context)) {
        return 0;
    }
    Qp& qp = object_of<Qp>(base);
    Process& self = *context_of(base->context).process;
    QpShared& shared = self.arena().qp(qp.index);
    if (base->qp_type == IBV_QPT_UD && is_attached(self, base->qp_num)) {
        return EBUSY;
    }
    qp.one_thread.enter("QP");
    self.release_qp_number(base->qp_num);
    {
        const SharedGuard guard(shared.lock, self.token());
        settle_send_queue(self, qp.index);
        reset(self, qp, shared);
        const SharedGuard state_guard(self.arena().recv_queue(shared.recv_queue).lock,
                                      self.token());
        shared.number = 0;
    }
    set_qp(qp.index, nullptr);
    await_acknowledged(base->mutex, base->cond, base->events_completed, qp.events_delivered);
    if (qp.srq != nullptr) {
        const std::lock_guard<std::mutex> guard(qp.srq->mutex);
        std::erase(qp.srq->attached, qp.index);
        qp.srq->children.fetch_sub(1);
    } else {
        destroy_recv_queue(self, qp.queue);
    }
    self.release(qp.sq_offset, qp.sq_bytes);
    self.qp_indices.release(qp.index);
    self.queue_pairs_destroyed.fetch_add(1);
    object_of<Cq>(base->send_cq).children.fetch_sub(1);
    object_of<Cq>(base->recv_cq).children.fetch_sub(1);
    object_of<Pd>(base->pd).children.fetch_sub(1);
    delete &qp;
    return 0;
}

} // namespace softhca
