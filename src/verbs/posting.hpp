// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The two ways to post work requests: ibv_post_send, or the ibv_wr_* functions.
#pragma once

#include <infiniband/verbs.h>

namespace gdr::verbs {

// Posts a list of work requests, like ibv_post_send; returns 0 or an errno.
using PostSend = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);

// Posts a list of receives, like ibv_post_srq_recv; returns 0 or an errno.
using PostReceives = int (*)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**);

// The provider's own ibv_post_send.
inline PostSend post_send_of(const ibv_context& context)
{
    return context.ops.post_send;
}

// The operations that post_by_functions() supports (IBV_QP_EX_WITH_*), and the most pieces of a
// work request.
inline constexpr uint64_t kSendOperations =
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
inline constexpr int kMostPieces = 16;

// Posts all requests or none with ibv_wr_*. The queue pair must have been created for
// kSendOperations.
int post_by_functions(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);

} // namespace gdr::verbs
