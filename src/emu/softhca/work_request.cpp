// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What may be posted, see work_request.hpp.
#include "emu/softhca/work_request.hpp"

#include "emu/softhca/window.hpp"

namespace softhca {

int check(const ibv_qp& qp, const QpShared& shared, const ibv_send_wr& wr)
{
    const bool ud = shared.type == IBV_QPT_UD;
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    switch (unsigned{wr.opcode}) { // and those without a name
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        if (ud) {
            return EINVAL;
        }
        break;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        if (ud || shared.type == IBV_QPT_UC || is_inline) {
            return EINVAL;
        }
        break;
    case IBV_WR_LOCAL_INV:
        return ud ? EINVAL : 0;
    case IBV_WR_BIND_MW:
        return ud ? EINVAL : check_bind(qp, wr);
    case kNop:
        return ud ? EINVAL : 0;
    case kConnect:
        return shared.type == kDci ? 0 : EINVAL;
    default:
        return EOPNOTSUPP;
    }
    if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > shared.max_send_sge) {
        return EINVAL;
    }
    const std::uint64_t length = total_length(wr.sg_list, wr.num_sge);
    return length > kMaxMessage || (is_inline && length > shared.max_inline) ? EINVAL : 0;
}

std::uint8_t completion_opcode(std::uint8_t opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    default:
        return IBV_WC_SEND;
    }
}

} // namespace softhca
