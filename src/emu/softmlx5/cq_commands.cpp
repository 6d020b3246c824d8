// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about completion queues and their channels.
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/command.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace softmlx5 {
namespace {

struct Wanted {
    CqRequest request;
    std::uint32_t vector;
    int channel_fd;
};

// softhca's queue has room for what programs are not told of.
int entries_of_hca(std::uint32_t entries)
{
    return static_cast<int>(std::min(2 * entries, softhca::kMaxCqe));
}

bool is_size(std::uint32_t cqe, std::uint32_t entry_size)
{
    return cqe != 0 && cqe < softhca::kMaxCqe && (entry_size == 64 || entry_size == 128);
}

int create(Context& context, Wanted& wanted, Command& command, ib_uverbs_create_cq_resp& answer)
{
    wanted.request.memory = command.driver_request<mlx5_ib_create_cq>();
    const mlx5_ib_create_cq& memory = wanted.request.memory;
    if (memory.cqe_comp_en != 0 || (memory.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS) != 0) {
        return EOPNOTSUPP;
    }
    std::shared_ptr<CompletionChannel> channel;
    if (wanted.channel_fd >= 0) {
        channel = find_channel(wanted.channel_fd);
        if (channel == nullptr) {
            return EBADF;
        }
    }
    Cq* cq = nullptr;
    if (const int error = make_cq(context, wanted.request, std::move(channel), context.async,
                                  wanted.vector, cq)) {
        return error;
    }
    answer = {cq->hca().handle, wanted.request.cqe, {}};
    command.driver_answer(mlx5_ib_create_cq_resp{cq->hca().handle, 0});
    return 0;
}

} // namespace

int make_cq(Context& context, const CqRequest& request, std::shared_ptr<CompletionChannel> channel,
            std::shared_ptr<AsyncChannel> async, std::uint32_t vector, Cq*& made)
{
    const mlx5_ib_create_cq& memory = request.memory;
    if (!is_size(request.cqe, memory.cqe_size)) {
        return EINVAL;
    }
    const std::uint32_t entries = std::bit_ceil(request.cqe + 1);
    if (const int error =
            check_queue(memory.buf_addr, std::size_t{entries} * memory.cqe_size, memory.db_addr)) {
        return error;
    }
    ibv_cq* cq = softhca::create_cq(&context.hca.verbs.context, entries_of_hca(entries), nullptr,
                                    nullptr, static_cast<int>(vector));
    if (cq == nullptr) {
        return errno;
    }
    auto object = std::make_unique<Cq>(*cq, request, std::move(channel), std::move(async));
    made = object.get();
    context.cqs.add(cq->handle, std::move(object));
    return 0;
}

int remove_cq(Context& context, std::uint32_t handle, ib_uverbs_destroy_cq_resp& events)
{
    Cq* cq = context.cqs.find(handle);
    if (cq == nullptr) {
        return EINVAL;
    }
    if (softhca::object_of<softhca::Cq>(&cq->hca()).children.load() != 0) {
        return EBUSY;
    }
    events = cq->end();
    context.cqs.remove(handle);
    return 0;
}

int create_comp_channel(Context&, Command& command)
{
    auto channel = std::make_shared<CompletionChannel>();
    if (const int error = channel->open()) {
        return error;
    }
    command.answer(
        ib_uverbs_create_comp_channel_resp{static_cast<std::uint32_t>(channel->give_read_fd())});
    keep_channel(std::move(channel));
    return 0;
}

int create_cq(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_create_cq>();
    Wanted wanted = {
        {request.user_handle, request.cqe, false, {}}, request.comp_vector, request.comp_channel};
    ib_uverbs_create_cq_resp answer = {};
    const int error = create(context, wanted, command, answer);
    command.answer(answer);
    return error;
}

int create_cq_ex(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_ex_create_cq>();
    const std::uint32_t known =
        IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    if (request.comp_mask != 0 || (request.flags & ~known) != 0) {
        return EOPNOTSUPP;
    }
    Wanted wanted = {{request.user_handle,
                      request.cqe,
                      (request.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0,
                      {}},
                     request.comp_vector,
                     request.comp_channel};
    ib_uverbs_ex_create_cq_resp answer = {};
    answer.response_length = sizeof answer;
    const int error = create(context, wanted, command, answer.base);
    command.answer(answer);
    return error;
}

int resize_cq(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_resize_cq>();
    const auto memory = command.driver_request<mlx5_ib_resize_cq>();
    Cq* cq = context.cqs.find(request.cq_handle);
    if (cq == nullptr || !is_size(request.cqe, memory.cqe_size)) {
        return EINVAL;
    }
    const std::uint32_t entries = std::bit_ceil(request.cqe + 1);
    if (const int error = check_ring(memory.buf_addr, std::size_t{entries} * memory.cqe_size)) {
        return error;
    }
    while (cq->collect(context.adapter)) {
    }
    if (cq->unpolled() >= entries) {
        return EINVAL;
    }
    if (const int error = softhca::resize_cq(&cq->hca(), entries_of_hca(entries))) {
        return error;
    }
    cq->resize(memory, entries);
    ib_uverbs_resize_cq_resp answer = {};
    answer.cqe = request.cqe;
    command.answer(answer);
    return 0;
}

int destroy_cq(Context& context, Command& command)
{
    ib_uverbs_destroy_cq_resp events = {};
    const int error = remove_cq(context, command.request<ib_uverbs_destroy_cq>().cq_handle, events);
    command.answer(events);
    return error;
}

} // namespace softmlx5
