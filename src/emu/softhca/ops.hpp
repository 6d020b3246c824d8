// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations that a context's ops table points to.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

namespace softhca {

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);

} // namespace softhca
