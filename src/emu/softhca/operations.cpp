// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations of a reliable connection: what requester and responder check, and the way the
// bytes take; see send_queue.hpp.
#include "emu/softhca/send_queue.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/cuda_memory.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ud.hpp"
#include "emu/softhca/window.hpp"

namespace softhca {
namespace {

bool is_connected(const QpShared& peer, const QpShared& qp)
{
    const std::uint8_t state = peer.state.load(std::memory_order_acquire);
    return peer.number == qp.destination &&
           (peer.destination == qp.number ? peer.type == qp.type && qp.type != kDci
                                          : is_dc_target(peer, qp)) &&
           !peer.dropped.load(std::memory_order_relaxed) && state >= IBV_QPS_RTR &&
           state <= IBV_QPS_SQE;
}

} // namespace

Outcome SendQueue::execute(const WorkRequest& wr)
{
    const Outcome outcome = attempt(wr);
    return qp_.type == IBV_QPT_UC ? unacknowledged(outcome) : outcome;
}

Outcome SendQueue::unacknowledged(const Outcome& outcome) const
{
    switch (outcome.status) {
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RETRY_EXC_ERR:
        return Outcome::finished(IBV_WC_SUCCESS);
    default:
        break;
    }
    const bool is_lost =
        outcome.wait_for == Wait::unreachable ||
        (outcome.wait_for == Wait::receiver_not_ready && !may_be_unseen(looked_, qp_));
    return is_lost ? Outcome::finished(IBV_WC_SUCCESS) : outcome;
}

Outcome SendQueue::attempt(const WorkRequest& wr)
{
    if (wr.injected_status != IBV_WC_SUCCESS) {
        return Outcome::finished(wr.injected_status);
    }
    wire_.begin((wr.send_flags & IBV_SEND_FENCE) != 0, wr.delay_us);
    if (qp_.type == IBV_QPT_UD) {
        return execute_ud(self_, qp_, wr, wire_);
    }
    if (wr.opcode >= IBV_WR_LOCAL_INV && wr.opcode != IBV_WR_SEND_WITH_INV) {
        return execute_locally(wr);
    }
    if (!find_peer()) {
        return Outcome::wait(Wait::unreachable);
    }
    switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
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

Outcome SendQueue::execute_locally(const WorkRequest& wr)
{
    switch (wr.opcode) {
    case IBV_WR_BIND_MW:
        return bind(wr);
    case IBV_WR_LOCAL_INV:
        return invalidate(wr);
    case kConnect:
        return connect(wr);
    default: // kNop
        return Outcome::finished(IBV_WC_SUCCESS);
    }
}

Outcome SendQueue::connect(const WorkRequest& wr)
{
    if (!own_ || !is_address_handle(wr.remote_address)) { // it has been overwritten or destroyed
        return Outcome::finished(IBV_WC_LOC_QP_OP_ERR);
    }
    set_address(qp_, reinterpret_cast<const Ah*>(wr.remote_address)->attributes);
    qp_.destination = wr.immediate & 0xffffff;
    qp_.dc_key = wr.compare_add;
    qp_.direct_writes = ~0u; // a target does not tell apart whose WRITEs it would be left
    return Outcome::finished(IBV_WC_SUCCESS);
}

bool SendQueue::find_peer()
{
    if (qp_.peer_token == 0 && !resolve_destination()) {
        return false;
    }
    if (!self_.alive(qp_.peer_token) || qp_.dropped.load(std::memory_order_relaxed) ||
        is_down(self_, qp_.device)) {
        return false;
    }
    remote_ = self_.arena_of(qp_.peer_token);
    if (remote_ == nullptr) {
        return false;
    }
    peer_ = &remote_->qp(qp_.peer_index);
    looked_ = remote_->looked.load(std::memory_order_acquire);
    return is_connected(*peer_, qp_) && !is_down(self_, peer_->device);
}

bool SendQueue::resolve_destination()
{
    const auto address = self_.find_qp(qp_.destination);
    if (!address || !self_.alive(address->token)) {
        return false;
    }
    Arena* arena = self_.arena_of(address->token);
    if (arena == nullptr) {
        return false;
    }
    const unsigned device = arena->qp(address->index).device;
    if (!is_port(*arena, device, qp_.destination_lid, qp_.destination_gid)) {
        return false;
    }
    qp_.peer_token = address->token;
    qp_.peer_index = address->index;
    qp_.writes_issued = arena->qp(address->index).writes_applied.load();
    return true;
}

bool SendQueue::local_list(const WorkRequest& wr, unsigned access, SegmentList& list)
{
    return wr.is_inline ? inline_list(wr, list)
                        : region_list(arena_, qp_.pd, wr.sge, wr.num_sge, access, list) &&
                              (role_ != Role::copier || is_intact(list));
}

Outcome SendQueue::outcome_of(Moved moved)
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

Outcome SendQueue::refused(ibv_wc_status status, ibv_event_type event)
{
    if (peer_->type == IBV_QPT_UC) { // which drops what it may not do
        return Outcome::finished(status);
    }
    return receive_failed(status, event);
}

Outcome SendQueue::receive_failed(ibv_wc_status status, ibv_event_type event)
{
    if (peer_->type == kDct) { // which goes on for others
        return Outcome::finished(status);
    }
    set_error_state(self_, *remote_, *peer_);
    raise_event(self_, *remote_, peer_->events, event, qp_.peer_index, peer_->number);
    return Outcome::finished(status);
}

Outcome SendQueue::send(const WorkRequest& wr)
{
    SegmentList source;
    if (!local_list(wr, 0, source)) {
        return Outcome::finished(IBV_WC_LOC_PROT_ERR);
    }
    if (wr.opcode == IBV_WR_SEND_WITH_INV) {
        if (!is_settled()) { // the WRITEs before it may need the window
            return Outcome::finished(IBV_WC_WR_FLUSH_ERR);
        }
        if (!may_invalidate(*remote_, *peer_, wr.immediate)) {
            return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        }
    }
    const Arrival arrival = {
        .opcode = IBV_WC_RECV,
        .flags = wr.opcode == IBV_WR_SEND_WITH_IMM   ? unsigned{IBV_WC_WITH_IMM}
                 : wr.opcode == IBV_WR_SEND_WITH_INV ? unsigned{IBV_WC_WITH_INV}
                                                     : 0u,
        .immediate = wr.immediate,
        .length = wr.length,
        .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
        .source_lid = qp_.told_lid,
    };
    if (is_for_copier(source)) {
        return Outcome::wait(Wait::copier);
    }
    Receiver receiver(self_, *remote_, *peer_, qp_, wire_, role_ == Role::copier);
    if (wr.cut_off) {
        receiver.begin();
        return Outcome::finished(IBV_WC_RETRY_EXC_ERR);
    }
    const Delivery delivery = receiver.deliver(arrival, source, local_pid(wr));
    count_device_bytes(source.device_bytes, delivery.device_bytes);
    return judge(delivery.result);
}

Outcome SendQueue::judge(Delivered result)
{
    switch (result) {
    case Delivered::done:
        return Outcome::finished(IBV_WC_SUCCESS);
    case Delivered::not_ready:
        return Outcome::wait(Wait::receiver_not_ready);
    case Delivered::needs_copier:
        return Outcome::wait(Wait::copier);
    case Delivered::too_long:
        return receive_failed(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    case Delivered::bad_buffer:
        return receive_failed(IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
    case Delivered::source_fault:
        return Outcome::finished(IBV_WC_LOC_PROT_ERR);
    default:
        return Outcome::wait(Wait::unreachable);
    }
}

bool SendQueue::remote_region(const WorkRequest& wr, unsigned access, SegmentList& list)
{
    if (wr.length == 0) {
        return true;
    }
    const MrShared* region = find_region(*remote_, wr.rkey, wr.remote_address, wr.length, access,
                                         peer_->pd, peer_->number);
    if (region == nullptr) {
        return false;
    }
    return list.append(*region, wr.remote_address, wr.length);
}

bool SendQueue::remote_keys(const WorkRequest& wr, unsigned access, SegmentList& list)
{
    return append_listed(*remote_, wr.rkey, wr.remote_address, wr.length, access, peer_->pd, list);
}

Outcome SendQueue::write(const WorkRequest& wr)
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
        if (is_for_copier(source) || is_for_copier(target)) {
            return Outcome::wait(Wait::copier);
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
    if (is_for_copier(source) || is_for_copier(target)) {
        return Outcome::wait(Wait::copier);
    }
    wire_.send(*remote_, *peer_, wr.length);
    count_device_bytes(source.device_bytes, target.device_bytes);
    return outcome_of(move(source, local_pid(wr), target, pid_of(*remote_)));
}

bool SendQueue::is_settled()
{
    // The copier has it settled before it begins, and has no lock now.
    if (role_ != Role::copier && has_executed()) {
        settle();
    }
    return qp_.state.load(std::memory_order_relaxed) != IBV_QPS_ERR;
}

bool SendQueue::may_defer(const WorkRequest& wr)
{
    // What is left to the responder must not overtake what has a time.
    if (role_ != Role::poster || wire_.is_timed() || remote_ == &arena_ ||
        wr.opcode != IBV_WR_RDMA_WRITE || wr.length == 0 || wr.length > kSlotSize) {
        return false;
    }
    if (qp_.direct_writes != 0) {
        --qp_.direct_writes;
        return false;
    }
    return true;
}

Outcome SendQueue::write_with_immediate(const WorkRequest& wr)
{
    Receiver receiver(self_, *remote_, *peer_, qp_, wire_);
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

Outcome SendQueue::read(const WorkRequest& wr)
{
    SegmentList source, target;
    if (!local_list(wr, IBV_ACCESS_LOCAL_WRITE, target)) {
        return Outcome::finished(IBV_WC_LOC_PROT_ERR);
    }
    if (qp_.max_rd_atomic == 0) {
        return Outcome::finished(IBV_WC_LOC_QP_OP_ERR);
    }
    if ((peer_->access & IBV_ACCESS_REMOTE_READ) == 0 || peer_->max_dest_rd_atomic == 0) {
        return refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    if (!is_settled()) {
        return Outcome::finished(IBV_WC_WR_FLUSH_ERR);
    }
    const DirectAccess guard(self_, *remote_);
    if (!remote_list(wr, IBV_ACCESS_REMOTE_READ, source)) {
        return refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    }
    if (is_for_copier(source) || is_for_copier(target)) {
        return Outcome::wait(Wait::copier);
    }
    wire_.fetch(*remote_, *peer_, wr.length);
    count_device_bytes(source.device_bytes, target.device_bytes);
    return outcome_of(move(source, pid_of(*remote_), target, local_pid(wr)));
}

Outcome SendQueue::atomic(const WorkRequest& wr)
{
    SegmentList result, word;
    if (wr.length != sizeof(std::uint64_t)) {
        return Outcome::finished(IBV_WC_LOC_LEN_ERR);
    }
    if (!local_list(wr, IBV_ACCESS_LOCAL_WRITE, result)) {
        return Outcome::finished(IBV_WC_LOC_PROT_ERR);
    }
    if (qp_.max_rd_atomic == 0) {
        return Outcome::finished(IBV_WC_LOC_QP_OP_ERR);
    }
    if ((peer_->access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || peer_->max_dest_rd_atomic == 0 ||
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
    if (is_for_copier(word) || is_for_copier(result)) {
        return Outcome::wait(Wait::copier);
    }
    wire_.fetch(*remote_, *peer_, wr.length);
    std::uint64_t former = 0, changed = 0;
    SegmentList former_list, changed_list;
    former_list.append(reinterpret_cast<std::uint64_t>(&former), sizeof former);
    changed_list.append(reinterpret_cast<std::uint64_t>(&changed), sizeof changed);
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

} // namespace softhca
