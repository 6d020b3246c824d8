// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Posts work requests by the ibv_wr_* functions.
#include "verbs/posting.hpp"

#include <cerrno>

namespace gdr::verbs {
namespace {

bool begin(ibv_qp_ex* qp, const ibv_send_wr& wr)
{
    qp->wr_id = wr.wr_id;
    qp->wr_flags = wr.send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    switch (wr.opcode) {
    case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qp, wr.imm_data);
        return true;
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        return true;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                              wr.wr.atomic.compare_add, wr.wr.atomic.swap);
        return true;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                wr.wr.atomic.compare_add);
        return true;
    default:
        return false;
    }
}

void set_inline_data(ibv_qp_ex* qp, const ibv_send_wr& wr)
{
    ibv_data_buf pieces[kMostPieces];
    for (int i = 0; i < wr.num_sge; ++i) {
        pieces[i] = {reinterpret_cast<void*>(wr.sg_list[i].addr), wr.sg_list[i].length};
    }
    ibv_wr_set_inline_data_list(qp, static_cast<size_t>(wr.num_sge), pieces);
}

// Work requests without data need this call too: it finishes the request.
void set_data(ibv_qp_ex* qp, const ibv_send_wr& wr)
{
    if (wr.num_sge > 0 && (wr.send_flags & IBV_SEND_INLINE) != 0) {
        set_inline_data(qp, wr);
    } else if (wr.num_sge == 1) {
        ibv_wr_set_sge(qp, wr.sg_list->lkey, wr.sg_list->addr, wr.sg_list->length);
    } else {
        ibv_wr_set_sge_list(qp, static_cast<size_t>(wr.num_sge), wr.sg_list);
    }
}

} // namespace

int post_by_functions(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused)
{
    auto* extended = reinterpret_cast<ibv_qp_ex*>(qp); // create_rc() has checked the cast
    *refused = wr;
    ibv_wr_start(extended);
    for (; wr != nullptr; wr = wr->next) {
        if (wr->num_sge > kMostPieces || !begin(extended, *wr)) [[unlikely]] {
            ibv_wr_abort(extended);
            return EINVAL;
        }
        set_data(extended, *wr);
    }
    return ibv_wr_complete(extended);
}

} // namespace gdr::verbs
