// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about a device as such. What libmlx5 is to leave alone is not among the capabilities.
#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softmlx5/command.hpp"
#include "emu/softmlx5/settings.hpp"

#include <cerrno>
#include <cstddef>

namespace softmlx5 {
namespace {

constexpr std::uint64_t kFirmware = std::uint64_t{28} << 32 | 99 << 16 | 1; // as in sysfs
constexpr std::uint32_t kVendor = 0x2c9, kPart = 4129;                      // a ConnectX-7

ib_uverbs_query_device_resp describe(const Context& context)
{
    ibv_device_attr from;
    softhca::describe_device(context.hca.device, from);
    ib_uverbs_query_device_resp to = {};
    to.fw_ver = kFirmware;
    to.node_guid = from.node_guid;
    to.sys_image_guid = from.sys_image_guid;
    to.max_mr_size = from.max_mr_size;
    to.page_size_cap = from.page_size_cap;
    to.vendor_id = kVendor;
    to.vendor_part_id = kPart;
    to.max_qp = static_cast<std::uint32_t>(from.max_qp);
    to.max_qp_wr = static_cast<std::uint32_t>(from.max_qp_wr);
    to.device_cap_flags = from.device_cap_flags;
    to.max_sge = static_cast<std::uint32_t>(from.max_sge);
    to.max_sge_rd = static_cast<std::uint32_t>(from.max_sge_rd);
    to.max_cq = static_cast<std::uint32_t>(from.max_cq);
    to.max_cqe = static_cast<std::uint32_t>(from.max_cqe) - 1; // one more is rounded up
    to.max_mr = static_cast<std::uint32_t>(from.max_mr);
    to.max_pd = static_cast<std::uint32_t>(from.max_pd);
    to.max_qp_rd_atom = static_cast<std::uint32_t>(from.max_qp_rd_atom);
    to.max_res_rd_atom = static_cast<std::uint32_t>(from.max_res_rd_atom);
    to.max_qp_init_rd_atom = static_cast<std::uint32_t>(from.max_qp_init_rd_atom);
    to.atomic_cap = from.atomic_cap;
    to.max_mcast_grp = static_cast<std::uint32_t>(from.max_mcast_grp);
    to.max_mcast_qp_attach = static_cast<std::uint32_t>(from.max_mcast_qp_attach);
    to.max_total_mcast_qp_attach = static_cast<std::uint32_t>(from.max_total_mcast_qp_attach);
    to.max_ah = static_cast<std::uint32_t>(from.max_ah);
    to.max_srq = static_cast<std::uint32_t>(from.max_srq);
    to.max_srq_wr = static_cast<std::uint32_t>(from.max_srq_wr) - 1; // likewise
    to.max_srq_sge = static_cast<std::uint32_t>(from.max_srq_sge);
    to.max_pkeys = from.max_pkeys;
    to.local_ca_ack_delay = from.local_ca_ack_delay;
    to.phys_port_cnt = static_cast<std::uint8_t>(context.hca.ports);
    return to;
}

} // namespace

int get_context(Context& context, Command& command)
{
    const auto wanted = command.driver_request<mlx5_ib_alloc_ucontext_req_v2>();
    context.has_devx = (wanted.flags & MLX5_IB_ALLOC_UCTX_DEVX) != 0;
    if (context.has_devx && !settings().devx) {
        return EOPNOTSUPP; // libmlx5 asks again without
    }
    const softhca::Profile& profile = softhca::profile_of(context.hca.device);
    ib_uverbs_get_context_resp answer = {};
    answer.async_fd = static_cast<std::uint32_t>(context.async->give_read_fd());
    answer.num_comp_vectors = 1;
    command.answer(answer);
    mlx5_ib_alloc_ucontext_resp driver = {};
    driver.response_length = sizeof driver;
    driver.qp_tab_size = softhca::kMaxQpNumbers;
    driver.bf_reg_size = 512; // UCX wants two halves of 256
    driver.tot_bfregs = 0;    // pages for doorbells are objects of their own
    driver.num_dyn_bfregs = 512;
    driver.log_uar_size = 12;
    driver.num_uars_per_page = 1;
    driver.cache_line_size = 64;
    driver.max_sq_desc_sz = 1024;
    driver.max_rq_desc_sz = 512;
    driver.max_send_wqebb = driver.max_recv_wr = profile.max_qp_wr;
    driver.max_srq_recv_wr = profile.max_srq_wr - 1;
    driver.num_ports = static_cast<std::uint8_t>(context.hca.ports);
    driver.cqe_version = 1; // completions name queue pairs by the program's numbers
    driver.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
    driver.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
    command.driver_answer(driver);
    return 0;
}

int query_device(Context& context, Command& command)
{
    if (command.out.length == 0) {
        return ENOSPC; // libibverbs tries whether commands come by ioctl
    }
    command.answer(describe(context));
    return 0;
}

int query_device_ex(Context& context, Command& command)
{
    ib_uverbs_ex_query_device_resp answer = {};
    answer.base = describe(context);
    answer.response_length = sizeof answer;
    answer.timestamp_mask = ~std::uint64_t{0};
    answer.hca_core_clock = 1'000'000; // kHz: completions have nanoseconds
    command.answer(answer);
    mlx5_ib_query_device_resp driver = {};
    driver.response_length = sizeof driver;
    command.driver_answer(driver);
    return 0;
}

int query_port(Context& context, Command& command)
{
    const unsigned port = command.request<ib_uverbs_query_port>().port_num;
    if (!context.hca.has_port(port)) {
        return EINVAL;
    }
    const ibv_port_attr from =
        softhca::describe_port(*context.hca.process, context.hca.device_of(port));
    ib_uverbs_query_port_resp to = {};
    to.port_cap_flags = from.port_cap_flags;
    to.max_msg_sz = from.max_msg_sz;
    to.gid_tbl_len = static_cast<std::uint32_t>(from.gid_tbl_len);
    to.pkey_tbl_len = from.pkey_tbl_len;
    to.lid = from.lid;
    to.sm_lid = from.sm_lid;
    to.state = static_cast<std::uint8_t>(from.state);
    to.max_mtu = static_cast<std::uint8_t>(from.max_mtu);
    to.active_mtu = static_cast<std::uint8_t>(from.active_mtu);
    to.max_vl_num = from.max_vl_num;
    to.subnet_timeout = from.subnet_timeout;
    to.active_width = from.active_width;
    to.active_speed = from.active_speed;
    to.phys_state = from.phys_state;
    to.link_layer = from.link_layer;
    to.flags = from.flags;
    command.answer(to);
    return 0;
}

} // namespace softmlx5
