// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about shared receive queues.
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/command.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace softmlx5 {
namespace {

// Both forms of the request have the same fields here.
template <class Request>
int create(Context& context, const Request& request, Command& command)
{
    const auto memory = command.driver_request<mlx5_ib_create_srq>();
    Pd* pd = context.pds.find(request.pd_handle);
    if (pd == nullptr) {
        return EINVAL;
    }
    if ((memory.flags & MLX5_SRQ_FLAG_SIGNATURE) != 0) {
        return EOPNOTSUPP;
    }
    Srq* srq = nullptr;
    if (const int error = make_srq(
            context, *pd,
            {request.user_handle,
             request.max_wr,
             request.max_sge,
             request.srq_limit,
             {memory.buf_addr, memory.db_addr,
              Srq::stride(std::min(request.max_sge, softhca::kMaxSge)),
              std::bit_ceil(std::min(request.max_wr, softhca::kMaxQueueDepth) + 1), false}},
            srq)) {
        return error;
    }
    ib_uverbs_create_srq_resp answer = {};
    answer.srq_handle = srq->hca().handle;
    answer.srqn = srq->number();
    answer.max_wr = request.max_wr;
    answer.max_sge = request.max_sge;
    command.answer(answer);
    command.driver_answer(mlx5_ib_create_srq_resp{srq->number(), 0});
    return 0;
}

} // namespace

int make_srq(Context& context, Pd& pd, const SrqRequest& request, Srq*& made)
{
    const SrqMemory& memory = request.memory;
    if (request.max_wr > softhca::kMaxQueueDepth || request.max_sge > softhca::kMaxSge) {
        return EINVAL;
    }
    if (const int error =
            check_queue(memory.requests, memory.entries * memory.stride, memory.record)) {
        return error;
    }
    ibv_srq_init_attr init = {};
    init.attr = {std::max(request.max_wr, 1u), request.max_sge, request.limit};
    ibv_srq* srq = softhca::create_srq(&pd.hca(), &init);
    if (srq == nullptr) {
        return errno;
    }
    auto object = std::make_unique<Srq>(*srq, request.user_handle, memory);
    made = object.get();
    context.srqs.add(srq->handle, std::move(object));
    return 0;
}

int remove_srq(Context& context, std::uint32_t handle, ib_uverbs_destroy_srq_resp& events)
{
    Srq* srq = context.srqs.find(handle);
    if (srq == nullptr) {
        return EINVAL;
    }
    if (softhca::object_of<softhca::Srq>(&srq->hca()).children.load() != 0) {
        return EBUSY;
    }
    const unsigned unread = context.async->take_back([srq](const auto& event) {
        return (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED ||
                event.event_type == IBV_EVENT_SRQ_ERR) &&
               event.element == srq->user_handle();
    });
    events = {srq->events() - unread};
    context.srqs.remove(handle);
    return 0;
}

int create_srq(Context& context, Command& command)
{
    return create(context, command.request<ib_uverbs_create_srq>(), command);
}

int create_xsrq(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_create_xsrq>();
    if (request.srq_type != IBV_SRQT_BASIC) {
        return EOPNOTSUPP;
    }
    return create(context, request, command);
}

int modify_srq(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_modify_srq>();
    Srq* srq = context.srqs.find(request.srq_handle);
    if (srq == nullptr) {
        return EINVAL;
    }
    srq->take_posted();
    ibv_srq_attr attributes = {request.max_wr, 0, request.srq_limit};
    return softhca::modify_srq(&srq->hca(), &attributes, static_cast<int>(request.attr_mask));
}

int query_srq(Context& context, Command& command)
{
    Srq* srq = context.srqs.find(command.request<ib_uverbs_query_srq>().srq_handle);
    ibv_srq_attr attributes;
    if (srq == nullptr) {
        return EINVAL;
    }
    const int error = softhca::query_srq(&srq->hca(), &attributes);
    command.answer(
        ib_uverbs_query_srq_resp{attributes.max_wr, attributes.max_sge, attributes.srq_limit, 0});
    return error;
}

int destroy_srq(Context& context, Command& command)
{
    ib_uverbs_destroy_srq_resp events = {};
    const int error =
        remove_srq(context, command.request<ib_uverbs_destroy_srq>().srq_handle, events);
    command.answer(events);
    return error;
}

} // namespace softmlx5
