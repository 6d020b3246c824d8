// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an HCA does for the verbs of these names: the mechanism, for libibverbs' face in verbs/ and
// for whoever else has an HCA of his own to offer. Errors are told as by the verbs.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

#include <cstddef>
#include <cstdint>

namespace softhca {

struct Context;

// Throws std::system_error, std::bad_alloc. The devices that follow are its further ports.
Context& open_context(unsigned device, unsigned ports = 1);
void close_context(Context& context);

ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

ibv_mr* register_memory(ibv_pd* pd, void* start, std::size_t length, std::uint64_t iova,
                        unsigned access);
ibv_mr* register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                        int fd, unsigned access);
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access);
int deregister(ibv_mr* mr);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int dealloc_mw(ibv_mw* mw);

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);
int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes);
ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port);

ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void ack_cq_events(ibv_cq* cq, unsigned events);
int get_async_event(ibv_context* context, ibv_async_event* event);
void ack_async_event(ibv_async_event* event);

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                  int comp_vector);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(ibv_cq* cq);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);

// The capabilities become those granted. The key is that of a DC target.
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr& init, std::uint64_t dc_key = 0);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init);
int destroy_qp(ibv_qp* qp);
// Whoever polls gets messages up to this length himself (Payload), instead of the receive's
// buffers.
void leave_to_poller(ibv_qp* qp, std::uint8_t length);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
// For who is not told of receives, but looks for them from time to time: all that this process had
// at this time (now_ns()) have been posted. From the first call on messages that find no receive
// wait for the next look.
void receives_are_posted(const Context& context, std::uint64_t as_of);
int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);

} // namespace softhca
