// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The verbs that programs find in the place of libibverbs' own. Those of a device are in
// device.cpp, those that only name something in names.cpp.
#include "emu/softhca/counters.hpp"
#include "emu/softhca/fork.hpp"
#include "emu/softhca/ops.hpp"

void softhca::do_posted() {}

#pragma GCC visibility push(default) // not all are declared by verbs.h
extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context)
{
    return softhca::alloc_pd(context);
}
int ibv_dealloc_pd(ibv_pd* pd)
{
    return softhca::dealloc_pd(pd);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access)
{
    return softhca::register_memory(pd, address, length, reinterpret_cast<std::uint64_t>(address),
                                    static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access)
{
    return softhca::register_memory(pd, address, length, iova, static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access)
{
    return softhca::register_memory(pd, address, length, iova, access);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access)
{
    return softhca::register_dmabuf(pd, offset, length, iova, fd, static_cast<unsigned>(access));
}
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access)
{
    return softhca::rereg_mr(mr, flags, pd, address, length, access);
}
int ibv_dereg_mr(ibv_mr* mr)
{
    return softhca::deregister(mr);
}

int ibv_fork_init()
{
    return softhca::fork_init();
}
int ibv_dontfork_range(void* start, std::size_t length)
{
    return softhca::dontfork_range(start, length);
}
int ibv_dofork_range(void* start, std::size_t length)
{
    return softhca::dofork_range(start, length);
}
ibv_fork_status ibv_is_fork_initialized()
{
    return softhca::is_fork_initialized();
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes)
{
    return softhca::create_ah(pd, attributes);
}
int ibv_destroy_ah(ibv_ah* ah)
{
    return softhca::destroy_ah(ah);
}
int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attributes)
{
    return softhca::init_ah_from_wc(context, port, wc, grh, attributes);
}
ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port)
{
    return softhca::create_ah_from_wc(pd, wc, grh, port);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context)
{
    return softhca::create_comp_channel(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel)
{
    return softhca::destroy_comp_channel(channel);
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context)
{
    return softhca::get_cq_event(channel, cq, cq_context);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned events)
{
    softhca::ack_cq_events(cq, events);
}
int ibv_get_async_event(ibv_context* context, ibv_async_event* event)
{
    return softhca::get_async_event(context, event);
}
void ibv_ack_async_event(ibv_async_event* event)
{
    softhca::ack_async_event(event);
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector)
{
    return softhca::create_cq(context, cqe, cq_context, channel, comp_vector);
}
int ibv_resize_cq(ibv_cq* cq, int cqe)
{
    return softhca::resize_cq(cq, cqe);
}
int ibv_destroy_cq(ibv_cq* cq)
{
    return softhca::destroy_cq(cq);
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes)
{
    return softhca::create_srq(pd, attributes);
}
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask)
{
    return softhca::modify_srq(srq, attributes, mask);
}
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes)
{
    return softhca::query_srq(srq, attributes);
}
int ibv_destroy_srq(ibv_srq* srq)
{
    return softhca::destroy_srq(srq);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init)
{
    return softhca::create_qp(pd, *init);
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask)
{
    return softhca::modify_qp(qp, attributes, mask);
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init)
{
    return softhca::query_qp(qp, attributes, mask, init);
}
int ibv_destroy_qp(ibv_qp* qp)
{
    return softhca::destroy_qp(qp);
}
int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)
{
    return softhca::attach_mcast(qp, gid, lid);
}
int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)
{
    return softhca::detach_mcast(qp, gid, lid);
}

} // extern "C"
#pragma GCC visibility pop
