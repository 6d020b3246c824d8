// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The two ways to post work requests: by ibv_post_send, or by the ibv_wr_* functions.
#pragma once

#include <infiniband/verbs.h>

namespace gdr::verbs {

// Posts a list of work requests, as ibv_post_send does; 0 or an errno.
using PostSend = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);

// The HCA's library's own ibv_post_send.
inline PostSend post_send_of(const ibv_context& context)
{
    return context.ops.post_send;
}

// What post_by_functions knows, IBV_QP_EX_WITH_*, and how many pieces a work request may have.
inline constexpr uint64_t kSendOperations =
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
inline constexpr int kMostPieces = 16;

// By ibv_wr_*, all of them or none; for queue pairs that were made for kSendOperations.
int post_by_functions(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);

} // namespace gdr::verbs
