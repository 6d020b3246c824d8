// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading send work requests, see send_request.hpp.
#include "emu/softmlx5/send_request.hpp"

#include <endian.h>

namespace softmlx5 {
namespace {

constexpr std::size_t kSegment = 16;
constexpr std::uint32_t kByteCount = 0x7fffffff;
constexpr std::uint8_t kCompletion = 3 << 2, kFence = 7 << 5; // fields of fm_ce_se
constexpr std::size_t kShortAddress = 16;                     // of an mlx5_wqe_av without a route

// Null: no such opcode.
const ibv_wr_opcode* opcode_of(std::uint8_t opcode)
{
    static constexpr struct {
        std::uint8_t mlx5;
        ibv_wr_opcode verbs;
    } known[] = {
        {MLX5_OPCODE_NOP, softhca::kNop},
        {MLX5_OPCODE_SEND_INVAL, IBV_WR_SEND_WITH_INV},
        {MLX5_OPCODE_RDMA_WRITE, IBV_WR_RDMA_WRITE},
        {MLX5_OPCODE_RDMA_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM},
        {MLX5_OPCODE_SEND, IBV_WR_SEND},
        {MLX5_OPCODE_SEND_IMM, IBV_WR_SEND_WITH_IMM},
        {MLX5_OPCODE_RDMA_READ, IBV_WR_RDMA_READ},
        {MLX5_OPCODE_ATOMIC_CS, IBV_WR_ATOMIC_CMP_AND_SWP},
        {MLX5_OPCODE_ATOMIC_FA, IBV_WR_ATOMIC_FETCH_AND_ADD},
    };
    for (const auto& entry : known) {
        if (entry.mlx5 == opcode) {
            return &entry.verbs;
        }
    }
    return nullptr;
}

unsigned flags_of(const mlx5_wqe_ctrl_seg& control)
{
    return ((control.fm_ce_se & kCompletion) != 0 ? unsigned{IBV_SEND_SIGNALED} : 0u) |
           ((control.fm_ce_se & MLX5_WQE_CTRL_SOLICITED) != 0 ? unsigned{IBV_SEND_SOLICITED} : 0u) |
           ((control.fm_ce_se & kFence) != 0 ? unsigned{IBV_SEND_FENCE} : 0u);
}

unsigned access_of(std::uint8_t flags)
{
    static constexpr struct {
        std::uint8_t mlx5;
        unsigned verbs;
    } known[] = {
        {MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC},
        {MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE},
        {MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
        {MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE},
    };
    unsigned access = 0;
    for (const auto& entry : known) {
        access |= (flags & entry.mlx5) != 0 ? entry.verbs : 0;
    }
    return access;
}

} // namespace

const char* SendRequest::read(const SendRing& ring, std::uint16_t counter, const ibv_qp& qp,
                              std::uint8_t port, std::uint32_t ring_key, Pd& pd, DcTarget& target)
{
    const Wqe wqe(ring, counter);
    const auto control = wqe.at<mlx5_wqe_ctrl_seg>(0);
    const std::uint32_t first = be32toh(control.opmod_idx_opcode), second = be32toh(control.qpn_ds);
    const std::size_t bytes = (second & 0x3f) * kSegment;
    opcode = static_cast<std::uint8_t>(first);
    blocks = static_cast<std::uint16_t>(
        std::max<std::size_t>((bytes + MLX5_SEND_WQE_BB - 1) / MLX5_SEND_WQE_BB, 1));
    wr = connect = {};
    connects = false;
    wr.wr_id = RequestId(counter, opcode).value();
    wr.sg_list = sge;
    if (bytes == 0 || static_cast<std::uint16_t>(first >> 8) != counter ||
        second >> 8 != qp.qp_num) {
        return "is not one of this queue pair and place";
    }
    const bool is_connected = qp.qp_type == IBV_QPT_RC || qp.qp_type == IBV_QPT_UC;
    const bool is_datagram = qp.qp_type == IBV_QPT_UD;
    if (opcode == MLX5_OPCODE_UMR && is_connected) {
        wr.send_flags = flags_of(control);
        read_binding(wqe, sizeof control, be32toh(control.imm), pd);
        return nullptr;
    }
    const ibv_wr_opcode* known = opcode_of(opcode);
    if (known == nullptr) {
        return "has an opcode that is not emulated";
    }
    wr.opcode = *known;
    wr.imm_data = control.imm;
    if (wr.opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = be32toh(control.imm);
    }
    wr.send_flags = flags_of(control);
    if (wr.opcode == softhca::kNop) {
        return nullptr;
    }
    std::size_t offset = sizeof control;
    if (!is_connected) {
        if (const char* const wrong = read_address(wqe, offset, is_datagram, port, pd, target)) {
            return wrong;
        }
    }
    if (!is_datagram) {
        read_operation(wqe, offset);
    }
    return read_data(wqe, offset, bytes, ring_key);
}

const char* SendRequest::read_address(const Wqe& wqe, std::size_t& offset, bool is_datagram,
                                      std::uint8_t port, Pd& pd, DcTarget& target)
{
    const auto address = wqe.at<mlx5_wqe_av>(offset);
    const std::uint32_t destination = be32toh(address.dqp_dct);
    const bool is_long = (destination & MLX5_EXTENDED_UD_AV) != 0;
    offset += is_long ? sizeof address : kShortAddress;
    ibv_ah* const handle = pd.address_handle(port, address, is_long);
    if (handle == nullptr) {
        return "has an address that the port does not take";
    }
    if (is_datagram) {
        wr.wr.ud = {handle, destination & 0xffffff, be32toh(address.key.qkey.qkey)};
        return nullptr;
    }
    const DcTarget wanted = {handle, destination & 0xffffff, be64toh(address.key.dc_key)};
    if (wanted != target) {
        connects = true;
        connect.wr_id = RequestId::kInternal;
        connect.next = &wr;
        connect.opcode = softhca::kConnect;
        connect.imm_data = wanted.number;
        connect.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(handle);
        connect.wr.atomic.compare_add = wanted.key;
        target = wanted;
    }
    return nullptr;
}

void SendRequest::read_operation(const Wqe& wqe, std::size_t& offset)
{
    if (wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM ||
        wr.opcode == IBV_WR_SEND_WITH_INV) {
        return;
    }
    const auto remote = wqe.at<mlx5_wqe_raddr_seg>(offset);
    offset += sizeof remote;
    if (wr.opcode != IBV_WR_ATOMIC_CMP_AND_SWP && wr.opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.rdma.remote_addr = be64toh(remote.raddr);
        wr.wr.rdma.rkey = be32toh(remote.rkey);
        return;
    }
    const auto operands = wqe.at<mlx5_wqe_atomic_seg>(offset);
    offset += sizeof operands;
    wr.wr.atomic.remote_addr = be64toh(remote.raddr);
    wr.wr.atomic.rkey = be32toh(remote.rkey);
    const bool adds = wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.compare_add = be64toh(adds ? operands.swap_add : operands.compare);
    wr.wr.atomic.swap = be64toh(operands.swap_add);
}

// The one kind of UMR that verbs have: a memory window of type 2 is bound or invalidated, one of
// type 1 bound or unbound. `key` is the window's own.
void SendRequest::read_binding(const Wqe& wqe, std::size_t offset, std::uint32_t key, Pd& pd)
{
    constexpr std::uint32_t kVariant = 0xff; // the part of a key that changes at each binding
    const auto control = wqe.at<mlx5_wqe_umr_ctrl_seg>(offset);
    const auto context = wqe.at<mlx5_wqe_mkey_context_seg>(offset + sizeof control);
    if ((control.flags & MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN) != 0) {
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.invalidate_rkey = key;
        return;
    }
    wr.opcode = IBV_WR_BIND_MW;
    window = {};
    window.pd = &pd.hca();
    window.rkey = key;
    window.type =
        (control.flags & MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE) != 0 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
    wr.bind_mw.mw = &window;
    wr.bind_mw.rkey = (key & ~kVariant) | (be32toh(context.qpn_mkey) & kVariant);
    ibv_mw_bind_info& info = wr.bind_mw.bind_info;
    info = {};
    if ((context.free & MLX5_WQE_MKEY_CONTEXT_FREE) != 0) {
        return;
    }
    const auto part =
        wqe.at<mlx5_wqe_umr_klm_seg>(offset + sizeof control + sizeof(mlx5_wqe_mkey_context_seg));
    region = {};
    region.pd = &pd.hca();
    region.lkey = be32toh(part.mkey);
    info.mr = &region;
    info.addr = be64toh(part.address);
    info.length = be64toh(context.len);
    info.mw_access_flags = access_of(context.access_flags);
    if (context.start_addr == 0 && info.addr != 0) {
        info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    }
}

const char* SendRequest::read_data(const Wqe& wqe, std::size_t offset, std::size_t end,
                                   std::uint32_t ring_key)
{
    constexpr const char* kTooMany = "has more pieces than the HCA takes";
    while (offset < end) {
        const std::uint32_t head = be32toh(wqe.at<std::uint32_t>(offset));
        if ((head & MLX5_INLINE_SEG) == 0) {
            const auto data = wqe.at<mlx5_wqe_data_seg>(offset);
            offset += sizeof data;
            if (!add(be64toh(data.addr), head, be32toh(data.lkey))) {
                return kTooMany;
            }
            continue;
        }
        const std::size_t length = head & kByteCount;
        if (offset + sizeof head + length > end) {
            return "has inline data that does not fit into it";
        }
        bool fits = true;
        wqe.for_each_piece(offset + sizeof head, length,
                           [&](const std::uint8_t* piece, std::size_t size) {
                               fits = fits && add(reinterpret_cast<std::uint64_t>(piece),
                                                  static_cast<std::uint32_t>(size), ring_key);
                           });
        if (!fits) {
            return kTooMany;
        }
        offset += (sizeof head + length + kSegment - 1) & ~(kSegment - 1);
    }
    return nullptr;
}

bool SendRequest::add(std::uint64_t address, std::uint32_t length, std::uint32_t key)
{
    if (length == 0) {
        return true;
    }
    if (wr.num_sge == static_cast<int>(softhca::kMaxSge)) {
        return false;
    }
    sge[wr.num_sge++] = {address, length, key};
    return true;
}

} // namespace softmlx5
