// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations that a context's ops table points to.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

#include <cstdint>

namespace softhca {

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int dealloc_mw(ibv_mw* mw);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);

// Whether a device's QPs of this type have these IBV_QP_EX_WITH_*, and the ibv_wr_* functions for
// them all.
bool are_send_ops_known(unsigned device, ibv_qp_type type, std::uint64_t ops);
void set_send_ops(ibv_qp_ex& qp);

} // namespace softhca
