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

} // namespace

const char* SendRequest::read(const SendRing& ring, std::uint16_t counter, std::uint32_t qp_number,
                              ibv_qp_type type, std::uint32_t ring_key, Pd& pd, DcTarget& target)
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
        second >> 8 != qp_number) {
        return "is not one of this queue pair and place";
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
    wr.send_flags =
        ((control.fm_ce_se & kCompletion) != 0 ? unsigned{IBV_SEND_SIGNALED} : 0u) |
        ((control.fm_ce_se & MLX5_WQE_CTRL_SOLICITED) != 0 ? unsigned{IBV_SEND_SOLICITED} : 0u) |
        ((control.fm_ce_se & kFence) != 0 ? unsigned{IBV_SEND_FENCE} : 0u);
    if (wr.opcode == softhca::kNop) {
        return nullptr;
    }
    std::size_t offset = sizeof control;
    if (type != IBV_QPT_RC) {
        if (const char* const wrong = read_address(wqe, offset, type, pd, target)) {
            return wrong;
        }
    }
    if (type != IBV_QPT_UD) {
        read_operation(wqe, offset);
    }
    return read_data(wqe, offset, bytes, ring_key);
}

const char* SendRequest::read_address(const Wqe& wqe, std::size_t& offset, ibv_qp_type type, Pd& pd,
                                      DcTarget& target)
{
    const auto address = wqe.at<mlx5_wqe_av>(offset);
    const std::uint32_t destination = be32toh(address.dqp_dct);
    const bool is_long = (destination & MLX5_EXTENDED_UD_AV) != 0;
    offset += is_long ? sizeof address : kShortAddress;
    ibv_ah* const handle = pd.address_handle(address, is_long);
    if (handle == nullptr) {
        return "has an address that the port does not take";
    }
    if (type == IBV_QPT_UD) {
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
