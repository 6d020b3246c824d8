// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The methods of DEVX, see devx_methods.hpp.
#include "emu/softmlx5/devx_methods.hpp"

#include "emu/softhca/memory.hpp"
#include "emu/softmlx5/attributes.hpp"
#include "emu/softmlx5/devx_commands.hpp"

#include <cerrno>
#include <cstring>

#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softmlx5 {
namespace {

// Runs a command by execute(in, out), and answers its status.
template <class Execute>
int run(ib_uverbs_ioctl_hdr& header, unsigned in_id, unsigned out_id, Execute execute)
{
    const Command::In in = input(header, in_id);
    const Command::Out out = output(header, out_id);
    if (in.length < prm::command_in::kBytes || out.length < prm::command_out::kBytes) {
        return EINVAL;
    }
    const prm::Output answer(static_cast<std::uint8_t*>(out.start), out.length);
    std::memset(out.start, 0, out.length);
    const Outcome outcome =
        execute(prm::Input(static_cast<const std::uint8_t*>(in.start), in.length), answer);
    answer.set(prm::command_out::status, static_cast<std::uint64_t>(outcome.status));
    answer.set(prm::command_out::syndrome, static_cast<std::uint64_t>(outcome.syndrome));
    return outcome.is_ok() ? 0 : EREMOTEIO;
}

bool is_told_of(DevxObject::Kind kind, std::uint16_t event)
{
    switch (event) {
    case prm::kCompletion:
        return kind == DevxObject::Kind::cq;
    case prm::kSrqCatastrophic:
    case prm::kSrqLimit:
        return kind == DevxObject::Kind::rmp;
    case prm::kSqDrained:
    case prm::kWqCatastrophic:
    case prm::kWqInvalidRequest:
    case prm::kWqAccess:
    case prm::kSrqLastWqe:
        return kind == DevxObject::Kind::qp;
    default:
        return false;
    }
}

} // namespace

int devx_other(Context& context, ib_uverbs_ioctl_hdr& header)
{
    return run(header, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
               [&](prm::Input in, prm::Output out) { return execute_general(context, in, out); });
}

int devx_create(Context& context, ib_uverbs_ioctl_hdr& header)
{
    return run(header, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
               [&](prm::Input in, prm::Output out) {
                   std::uint32_t made = 0;
                   const Outcome outcome = create_object(context, in, out, made);
                   answer_handle(header, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, made);
                   return outcome;
               });
}

int devx_modify(Context& context, ib_uverbs_ioctl_hdr& header)
{
    return run(header, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT,
               [&](prm::Input in, prm::Output) {
                   return modify_object(context,
                                        handle(header, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE), in);
               });
}

int devx_query(Context& context, ib_uverbs_ioctl_hdr& header)
{
    return run(header, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT,
               [&](prm::Input in, prm::Output out) {
                   return query_object(context, handle(header, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE),
                                       in, out);
               });
}

int devx_destroy(Context& context, ib_uverbs_ioctl_hdr& header)
{
    return destroy_object(context, handle(header, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE));
}

// There is one event queue, which nobody sees.
int devx_query_eqn(Context& context, ib_uverbs_ioctl_hdr& header)
{
    const auto vectors = static_cast<std::uint32_t>(context.hca.verbs.context.num_comp_vectors);
    if (value<std::uint32_t>(header, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC) >= vectors) {
        return EINVAL;
    }
    answer(header, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, std::uint32_t{1});
    return 0;
}

// Events come without data, as the program's cookie alone: so do those of completion channels.
int devx_open_channel(Context&, ib_uverbs_ioctl_hdr& header)
{
    if (value<std::uint32_t>(header, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS) !=
        MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA) {
        return EOPNOTSUPP;
    }
    auto channel = std::make_shared<CompletionChannel>();
    if (const int error = channel->open()) {
        return error;
    }
    answer_handle(header, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
                  static_cast<std::uint64_t>(channel->give_read_fd()));
    keep_channel(std::move(channel));
    return 0;
}

int devx_subscribe(Context& context, ib_uverbs_ioctl_hdr& header)
{
    if (find(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM) != nullptr ||
        find(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE) == nullptr) {
        return EOPNOTSUPP; // to an eventfd; events of the device as a whole
    }
    const auto channel =
        find_channel(static_cast<int>(handle(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE)));
    DevxObject* const object =
        context.devx_objects.find(handle(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE));
    if (channel == nullptr || object == nullptr) {
        return channel == nullptr ? EBADF : ENOENT;
    }
    const Command::In list = input(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST);
    std::vector<std::uint16_t> events(list.length / sizeof(std::uint16_t));
    if (events.empty() || list.start == nullptr) {
        return EINVAL;
    }
    std::memcpy(events.data(), list.start, events.size() * sizeof events[0]);
    for (const std::uint16_t event : events) {
        if (!is_told_of(object->kind, event)) {
            return EOPNOTSUPP;
        }
    }
    const auto cookie = value<std::uint64_t>(header, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE);
    if (object->kind == DevxObject::Kind::cq) {
        context.cqs.find(object->index)->notify_by(channel, cookie);
        return 0;
    }
    for (const std::uint16_t event : events) {
        object->subscriptions.push_back({event, channel, cookie});
    }
    return 0;
}

int devx_register(Context& context, ib_uverbs_ioctl_hdr& header)
{
    if (find(header, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD) != nullptr) {
        return EOPNOTSUPP;
    }
    const auto start = value<std::uint64_t>(header, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
    const auto length = value<std::uint64_t>(header, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
    const auto access = value<std::uint32_t>(header, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS);
    if (length == 0 || start + length < start) {
        return EINVAL;
    }
    if (const int error = softhca::populate(reinterpret_cast<void*>(start), length,
                                            (access & IBV_ACCESS_LOCAL_WRITE) != 0)) {
        return error;
    }
    const std::uint32_t id = ++context.latest_umem;
    context.umems[id] = std::make_shared<const Umem>(Umem{start, length});
    answer_handle(header, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, id);
    answer(header, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, id);
    return 0;
}

int devx_deregister(Context& context, ib_uverbs_ioctl_hdr& header)
{
    const auto found = context.umems.find(handle(header, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE));
    if (found == context.umems.end()) {
        return ENOENT;
    }
    if (found->second.use_count() > 1) {
        return EBUSY; // objects have it
    }
    context.umems.erase(found);
    return 0;
}

} // namespace softmlx5
