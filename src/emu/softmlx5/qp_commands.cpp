// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about queue pairs.
#include "emu/softhca/multicast.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/command.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace softmlx5 {
namespace {

// Both forms of the request have the same fields here.
template <class Request>
int create(Context& context, const Request& request, Command& command,
           ib_uverbs_create_qp_resp& answer)
{
    const auto memory = command.driver_request<mlx5_ib_create_qp>();
    constexpr std::uint32_t harmless = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_BFREG_INDEX |
                                       MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX;
    const std::uint32_t dc = memory.flags & (MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT);
    const bool is_target = dc == MLX5_QP_FLAG_TYPE_DCT;
    if ((memory.flags & ~(harmless | dc)) != 0 ||
        (dc == 0 ? request.qp_type != IBV_QPT_RC && request.qp_type != IBV_QPT_UC &&
                       request.qp_type != IBV_QPT_UD
                 : request.qp_type != IBV_QPT_DRIVER)) {
        return EOPNOTSUPP;
    }
    QpRequest wanted = {};
    wanted.user_handle = request.user_handle;
    wanted.type = is_target ? softhca::kDct
                  : dc != 0 ? softhca::kDci
                            : static_cast<ibv_qp_type>(request.qp_type);
    wanted.pd = context.pds.find(request.pd_handle);
    wanted.send_cq = context.cqs.find(request.send_cq_handle);
    wanted.recv_cq = context.cqs.find(request.recv_cq_handle);
    wanted.srq = request.is_srq != 0 ? context.srqs.find(request.srq_handle) : nullptr;
    wanted.memory = memory;
    if (wanted.pd == nullptr || wanted.send_cq == nullptr || wanted.recv_cq == nullptr ||
        (request.is_srq != 0 && wanted.srq == nullptr)) {
        return EINVAL;
    }
    if ((memory.flags & MLX5_QP_FLAG_SCATTER_CQE) != 0 && wanted.type != softhca::kDci &&
        wanted.type != IBV_QPT_UD) {
        wanted.longest_in_cqe = wanted.recv_cq->room();
    }
    Qp* qp = nullptr;
    if (const int error = make_qp(context, wanted, qp)) {
        return error;
    }
    answer.qp_handle = qp->hca().handle;
    answer.qpn = qp->hca().qp_num;
    answer.max_send_wr = request.max_send_wr;
    answer.max_recv_wr = request.max_recv_wr;
    answer.max_send_sge = request.max_send_sge;
    answer.max_recv_sge = request.max_recv_sge;
    answer.max_inline_data = request.max_inline_data;
    mlx5_ib_create_qp_resp driver = {};
    driver.bfreg_index = memory.bfreg_index;
    command.driver_answer(driver);
    return 0;
}

// Calls copy(a field of the request or the answer, the same of verbs) for each. Wire and Attributes
// are the structures of either command, const if they are copied from.
template <class Wire, class Attributes, class Copy>
void for_each_address_field(Wire& wire, Attributes& address, Copy copy)
{
    copy(wire.flow_label, address.grh.flow_label);
    copy(wire.sgid_index, address.grh.sgid_index);
    copy(wire.hop_limit, address.grh.hop_limit);
    copy(wire.traffic_class, address.grh.traffic_class);
    copy(wire.dlid, address.dlid);
    copy(wire.sl, address.sl);
    copy(wire.src_path_bits, address.src_path_bits);
    copy(wire.static_rate, address.static_rate);
    copy(wire.is_global, address.is_global);
    copy(wire.port_num, address.port_num);
}

template <class Wire, class Attributes, class Copy>
void for_each_field(Wire& wire, Attributes& attributes, Copy copy)
{
    copy(wire.qp_state, attributes.qp_state);
    copy(wire.cur_qp_state, attributes.cur_qp_state);
    copy(wire.path_mtu, attributes.path_mtu);
    copy(wire.path_mig_state, attributes.path_mig_state);
    copy(wire.qkey, attributes.qkey);
    copy(wire.rq_psn, attributes.rq_psn);
    copy(wire.sq_psn, attributes.sq_psn);
    copy(wire.dest_qp_num, attributes.dest_qp_num);
    copy(wire.qp_access_flags, attributes.qp_access_flags);
    copy(wire.pkey_index, attributes.pkey_index);
    copy(wire.max_rd_atomic, attributes.max_rd_atomic);
    copy(wire.max_dest_rd_atomic, attributes.max_dest_rd_atomic);
    copy(wire.min_rnr_timer, attributes.min_rnr_timer);
    copy(wire.port_num, attributes.port_num);
    copy(wire.timeout, attributes.timeout);
    copy(wire.retry_cnt, attributes.retry_cnt);
    copy(wire.rnr_retry, attributes.rnr_retry);
    for_each_address_field(wire.dest, attributes.ah_attr, copy);
}

constexpr auto to_verbs = []<class To>(const auto& wire, To& attribute) {
    attribute = static_cast<To>(wire);
};
constexpr auto to_wire = []<class To>(To& wire, const auto& attribute) {
    wire = static_cast<To>(attribute);
};

int modify(Context& context, const ib_uverbs_modify_qp& request, Command& command)
{
    Qp* qp = context.qps.find(request.qp_handle);
    if (qp == nullptr) {
        return EINVAL;
    }
    ibv_qp_attr attributes = {};
    for_each_field(request, attributes, to_verbs);
    std::memcpy(attributes.ah_attr.grh.dgid.raw, request.dest.dgid, sizeof request.dest.dgid);
    attributes.en_sqd_async_notify = request.en_sqd_async_notify;
    // What was posted before comes before.
    context.adapter.settle();
    const int error = qp->modify(attributes, static_cast<int>(request.attr_mask));
    mlx5_ib_modify_qp_resp driver = {};
    driver.response_length = sizeof driver;
    driver.dctn = qp->hca().qp_num;
    command.driver_answer(driver);
    return error;
}

int change_group(Context& context, Command& command,
                 int (*change)(ibv_qp*, const ibv_gid*, std::uint16_t))
{
    const auto request = command.request<ib_uverbs_attach_mcast>();
    Qp* qp = context.qps.find(request.qp_handle);
    if (qp == nullptr) {
        return EINVAL;
    }
    ibv_gid gid;
    std::memcpy(gid.raw, request.gid, sizeof gid.raw);
    return change(&qp->hca(), &gid, request.mlid);
}

} // namespace

int make_qp(Context& context, const QpRequest& request, Qp*& made)
{
    const mlx5_ib_create_qp& memory = request.memory;
    const std::uint32_t rq_count = memory.rq_wqe_count, sq_count = memory.sq_wqe_count;
    const bool is_target = request.type == softhca::kDct;
    if ((is_target && (request.srq == nullptr || rq_count + sq_count != 0)) ||
        (rq_count & (rq_count - 1)) != 0 || (sq_count & (sq_count - 1)) != 0 ||
        memory.rq_wqe_shift > 16) {
        return EINVAL;
    }
    if (!is_target) {
        if (const int error = check_queue(memory.buf_addr, request.ring_bytes(), memory.db_addr)) {
            return error;
        }
    }
    ibv_qp_init_attr init = {};
    init.send_cq = &request.send_cq->hca();
    init.recv_cq = &request.recv_cq->hca();
    init.srq = request.srq == nullptr ? nullptr : &request.srq->hca();
    init.qp_type = request.type;
    // As many as the rings can hold, of the pieces that fit into one request.
    // In a DC initiator another target is one more request.
    init.cap.max_send_wr =
        std::min(sq_count * (request.type == softhca::kDci ? 2 : 1), softhca::kMaxQueueDepth);
    init.cap.max_recv_wr = rq_count;
    init.cap.max_send_sge = softhca::kMaxSge;
    init.cap.max_recv_sge = rq_count == 0 ? 0 : softhca::kMaxSge;
    ibv_qp* qp = softhca::create_qp(&request.pd->hca(), init, is_target ? memory.access_key : 0);
    if (qp == nullptr) {
        return errno;
    }
    try {
        auto object =
            std::make_unique<Qp>(*qp, request.user_handle, memory, *request.pd, *request.send_cq);
        made = object.get();
        context.adapter.add(*object);
        context.qps.add(qp->handle, std::move(object));
    } catch (const std::system_error& error) {
        softhca::destroy_qp(qp);
        return error.code().value();
    }
    if (request.longest_in_cqe != 0) {
        softhca::leave_to_poller(qp, std::min(request.longest_in_cqe, request.recv_cq->room()));
    }
    return 0;
}

int remove_qp(Context& context, std::uint32_t handle, ib_uverbs_destroy_qp_resp& events)
{
    Qp* qp = context.qps.find(handle);
    if (qp == nullptr) {
        return EINVAL;
    }
    if (softhca::is_attached(*context.hca.process, qp->hca().qp_num)) {
        return EBUSY;
    }
    context.adapter.settle(); // what was posted last is still sent
    const unsigned unread = context.async->take_back([qp](const auto& event) {
        const auto type = static_cast<ibv_event_type>(event.event_type);
        const bool is_about_qp = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
                                 type == IBV_EVENT_QP_ACCESS_ERR ||
                                 type == IBV_EVENT_QP_LAST_WQE_REACHED ||
                                 type == IBV_EVENT_SQ_DRAINED;
        return is_about_qp && event.element == qp->user_handle();
    });
    events = {qp->events() - unread};
    context.adapter.remove(*qp);
    context.qps.remove(handle);
    return 0;
}

int create_qp(Context& context, Command& command)
{
    ib_uverbs_create_qp_resp answer = {};
    const int error = create(context, command.request<ib_uverbs_create_qp>(), command, answer);
    command.answer(answer);
    return error;
}

int create_qp_ex(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_ex_create_qp>();
    if (request.comp_mask != 0 || request.create_flags != 0) {
        return EOPNOTSUPP;
    }
    ib_uverbs_ex_create_qp_resp answer = {};
    answer.response_length = sizeof answer;
    const int error = create(context, request, command, answer.base);
    command.answer(answer);
    return error;
}

int modify_qp(Context& context, Command& command)
{
    return modify(context, command.request<ib_uverbs_modify_qp>(), command);
}

int modify_qp_ex(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_ex_modify_qp>();
    if ((request.base.attr_mask & IBV_QP_RATE_LIMIT) != 0) {
        return EOPNOTSUPP;
    }
    const int error = modify(context, request.base, command);
    ib_uverbs_ex_modify_qp_resp answer = {};
    answer.response_length = sizeof answer;
    command.answer(answer);
    return error;
}

int query_qp(Context& context, Command& command)
{
    Qp* qp = context.qps.find(command.request<ib_uverbs_query_qp>().qp_handle);
    if (qp == nullptr) {
        return EINVAL;
    }
    ibv_qp_attr from;
    ibv_qp_init_attr init;
    const int error = softhca::query_qp(&qp->hca(), &from, 0, &init);
    ib_uverbs_query_qp_resp to = {};
    for_each_field(to, from, to_wire);
    std::memcpy(to.dest.dgid, from.ah_attr.grh.dgid.raw, sizeof to.dest.dgid);
    to.max_send_wr = from.cap.max_send_wr;
    to.max_recv_wr = from.cap.max_recv_wr;
    to.max_send_sge = from.cap.max_send_sge;
    to.max_recv_sge = from.cap.max_recv_sge;
    to.max_inline_data = from.cap.max_inline_data;
    to.sq_sig_all = static_cast<std::uint8_t>(init.sq_sig_all);
    command.answer(to);
    return error;
}

int destroy_qp(Context& context, Command& command)
{
    ib_uverbs_destroy_qp_resp events = {};
    const int error = remove_qp(context, command.request<ib_uverbs_destroy_qp>().qp_handle, events);
    command.answer(events);
    return error;
}

int attach_mcast(Context& context, Command& command)
{
    return change_group(context, command, softhca::attach_mcast);
}

int detach_mcast(Context& context, Command& command)
{
    return change_group(context, command, softhca::detach_mcast);
}

} // namespace softmlx5
