// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Methods, see methods.hpp. What has an older structure of its own comes by INVOKE_WRITE and is
// told by number; the rest has attributes.
#include "emu/softmlx5/methods.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/attributes.hpp"
#include "emu/softmlx5/devx_methods.hpp"

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace softmlx5 {
namespace {

constexpr struct {
    unsigned number;
    bool extended;
    int (*execute)(Context& context, Command& command);
} kCommands[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, false, get_context},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, false, query_device},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, true, query_device_ex},
    {IB_USER_VERBS_CMD_QUERY_PORT, false, query_port},
    {IB_USER_VERBS_CMD_ALLOC_PD, false, alloc_pd},
    {IB_USER_VERBS_CMD_DEALLOC_PD, false, dealloc_pd},
    {IB_USER_VERBS_CMD_REG_MR, false, reg_mr},
    {IB_USER_VERBS_CMD_REREG_MR, false, rereg_mr},
    {IB_USER_VERBS_CMD_DEREG_MR, false, dereg_mr},
    {IB_USER_VERBS_CMD_ALLOC_MW, false, alloc_mw},
    {IB_USER_VERBS_CMD_DEALLOC_MW, false, dealloc_mw},
    {IB_USER_VERBS_CMD_CREATE_AH, false, create_ah},
    {IB_USER_VERBS_CMD_DESTROY_AH, false, destroy_ah},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, false, create_comp_channel},
    {IB_USER_VERBS_CMD_CREATE_CQ, false, create_cq},
    {IB_USER_VERBS_CMD_CREATE_CQ, true, create_cq_ex},
    {IB_USER_VERBS_CMD_RESIZE_CQ, false, resize_cq},
    {IB_USER_VERBS_CMD_DESTROY_CQ, false, destroy_cq},
    {IB_USER_VERBS_CMD_CREATE_SRQ, false, create_srq},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, false, create_xsrq},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, false, modify_srq},
    {IB_USER_VERBS_CMD_QUERY_SRQ, false, query_srq},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, false, destroy_srq},
    {IB_USER_VERBS_CMD_CREATE_QP, false, create_qp},
    {IB_USER_VERBS_CMD_CREATE_QP, true, create_qp_ex},
    {IB_USER_VERBS_CMD_MODIFY_QP, false, modify_qp},
    {IB_USER_VERBS_CMD_MODIFY_QP, true, modify_qp_ex},
    {IB_USER_VERBS_CMD_QUERY_QP, false, query_qp},
    {IB_USER_VERBS_CMD_DESTROY_QP, false, destroy_qp},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, false, attach_mcast},
    {IB_USER_VERBS_CMD_DETACH_MCAST, false, detach_mcast},
};

bool is_write(const ib_uverbs_ioctl_hdr& header)
{
    return header.object_id == UVERBS_OBJECT_DEVICE &&
           header.method_id == UVERBS_METHOD_INVOKE_WRITE;
}

// Unlike the older command this one says that relaxed ordering and its like may be asked for; the
// descriptor of events comes by a method of its own.
int get_context_by_attributes(Context& context, ib_uverbs_ioctl_hdr& header)
{
    ib_uverbs_get_context_resp answered = {};
    Command command = {{},
                       input(header, UVERBS_ATTR_UHW_IN),
                       {&answered, sizeof answered},
                       output(header, UVERBS_ATTR_UHW_OUT)};
    if (const int error = get_context(context, command)) {
        return error;
    }
    answer(header, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, answered.num_comp_vectors);
    answer(header, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
           std::uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
    return 0;
}

int alloc_async_events(Context& context, ib_uverbs_ioctl_hdr& header)
{
    answer_handle(header, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
                  static_cast<std::uint64_t>(context.async->give_read_fd()));
    return 0;
}

int write(Context* context, ib_uverbs_ioctl_hdr& header)
{
    const auto number = value<std::uint32_t>(header, UVERBS_ATTR_WRITE_CMD);
    Command command = {input(header, UVERBS_ATTR_CORE_IN), input(header, UVERBS_ATTR_UHW_IN),
                       output(header, UVERBS_ATTR_CORE_OUT), output(header, UVERBS_ATTR_UHW_OUT)};
    for (const auto& known : kCommands) {
        if (known.number == (number & IB_USER_VERBS_CMD_COMMAND_MASK) &&
            known.extended == ((number & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0)) {
            // The trial that libibverbs makes comes before all else.
            const bool is_trial = known.execute == query_device && command.out.length == 0;
            return is_trial             ? ENOSPC
                   : context == nullptr ? EINVAL
                                        : known.execute(*context, command);
        }
    }
    return EOPNOTSUPP;
}

// A page that doorbells are rung in: libmlx5 writes there, and nobody looks.
int alloc_doorbell_page(Context& context, ib_uverbs_ioctl_hdr& header)
{
    constexpr std::uint64_t apart = 1 << 20; // in the device file
    constexpr std::uint32_t most = 1 << 15;
    if (context.doorbell_pages == most) {
        return ENOMEM;
    }
    const std::uint32_t page = ++context.doorbell_pages;
    answer_handle(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, page);
    answer(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, page * apart);
    answer(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
           static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE)));
    answer(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page);
    return 0;
}

ib_uverbs_gid_entry gid_entry(const Context& context, std::uint32_t port, std::uint32_t index)
{
    const unsigned device = context.hca.device_of(port);
    const ibv_gid gid = softhca::port_gid(device, index);
    ib_uverbs_gid_entry entry = {};
    std::memcpy(entry.gid, gid.raw, sizeof gid.raw);
    entry.gid_index = index;
    entry.port_num = port;
    entry.gid_type = softhca::profile_of(device).ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    return entry;
}

bool is_empty(const ib_uverbs_gid_entry& entry)
{
    return entry.gid[0] == 0 && entry.gid[1] == 0;
}

int query_gid_entry(Context& context, ib_uverbs_ioctl_hdr& header)
{
    const auto index = value<std::uint32_t>(header, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
    const auto port = value<std::uint32_t>(header, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
    if (value<std::uint32_t>(header, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS) != 0 ||
        !context.hca.has_port(port) || index >= softhca::kGids) {
        return EINVAL;
    }
    const ib_uverbs_gid_entry entry = gid_entry(context, port, index);
    if (is_empty(entry)) {
        return ENODATA;
    }
    answer(header, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
    return 0;
}

int query_gid_table(Context& context, ib_uverbs_ioctl_hdr& header)
{
    const auto size = value<std::uint64_t>(header, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
    const Command::Out to = output(header, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    if (value<std::uint32_t>(header, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS) != 0 ||
        size < sizeof(ib_uverbs_gid_entry)) {
        return EINVAL;
    }
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < context.hca.ports * softhca::kGids; ++i) {
        const ib_uverbs_gid_entry entry =
            gid_entry(context, i / softhca::kGids + 1, i % softhca::kGids);
        if (is_empty(entry)) {
            continue;
        }
        if ((found + 1) * size > to.length) {
            return EINVAL;
        }
        std::memcpy(static_cast<char*>(to.start) + found++ * size, &entry, sizeof entry);
    }
    answer(header, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, found);
    return 0;
}

int reg_dmabuf_mr(Context& context, ib_uverbs_ioctl_hdr& header)
{
    Pd* pd = context.pds.find(handle(header, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE));
    if (pd == nullptr) {
        return EINVAL;
    }
    const ib_uverbs_attr* fd = find(header, UVERBS_ATTR_REG_DMABUF_MR_FD);
    ibv_mr* mr = softhca::register_dmabuf(
        &pd->hca(), value<std::uint64_t>(header, UVERBS_ATTR_REG_DMABUF_MR_OFFSET),
        value<std::uint64_t>(header, UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
        value<std::uint64_t>(header, UVERBS_ATTR_REG_DMABUF_MR_IOVA),
        fd == nullptr ? -1 : static_cast<int>(fd->data),
        value<std::uint32_t>(header, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS));
    if (mr == nullptr) {
        return errno;
    }
    context.mrs.add(mr->handle, std::make_unique<Mr>(*mr));
    answer_handle(header, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->handle);
    answer(header, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, mr->lkey);
    answer(header, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, mr->rkey);
    return 0;
}

// It stays.
int free_doorbell_page(Context&, ib_uverbs_ioctl_hdr&)
{
    return 0;
}

constexpr struct {
    unsigned object, method;
    int (*execute)(Context& context, ib_uverbs_ioctl_hdr& header);
} kMethods[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, get_context_by_attributes},
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, alloc_async_events},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, query_gid_entry},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, query_gid_table},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, reg_dmabuf_mr},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, alloc_doorbell_page},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, free_doorbell_page},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, devx_other},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, devx_query_eqn},
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, devx_subscribe},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, devx_create},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, devx_destroy},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, devx_modify},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, devx_query},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, devx_register},
    {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, devx_deregister},
    {MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
     devx_open_channel},
};

bool is_devx(const ib_uverbs_ioctl_hdr& header)
{
    return header.object_id == MLX5_IB_OBJECT_DEVX || header.object_id == MLX5_IB_OBJECT_DEVX_OBJ ||
           header.object_id == MLX5_IB_OBJECT_DEVX_UMEM ||
           header.object_id == MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD;
}

} // namespace

bool asks_for_context(const ib_uverbs_ioctl_hdr& header)
{
    return is_write(header) ? value<std::uint32_t>(header, UVERBS_ATTR_WRITE_CMD) ==
                                  IB_USER_VERBS_CMD_GET_CONTEXT
                            : header.object_id == UVERBS_OBJECT_DEVICE &&
                                  header.method_id == UVERBS_METHOD_GET_CONTEXT;
}

int execute(Context* context, ib_uverbs_ioctl_hdr& header)
{
    if (is_write(header)) {
        return write(context, header);
    }
    if (context == nullptr) {
        return EPROTONOSUPPORT;
    }
    for (const auto& known : kMethods) {
        if (known.object == header.object_id && known.method == header.method_id) {
            return is_devx(header) && !context->has_devx ? EPROTONOSUPPORT
                                                         : known.execute(*context, header);
        }
    }
    return EPROTONOSUPPORT;
}

} // namespace softmlx5
