// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about protection domains, memory regions and windows.
#include "emu/softhca/memory.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/command.hpp"

#include <cerrno>

namespace softmlx5 {

namespace {

// Memory that the program writes and reads, at a multiple of unit.
int check(std::uint64_t address, std::size_t bytes, std::uint64_t unit)
{
    return address == 0 || address % unit != 0
               ? EINVAL
               : softhca::populate(reinterpret_cast<void*>(address), bytes, true);
}

} // namespace

int check_ring(std::uint64_t ring, std::size_t bytes)
{
    return check(ring, bytes, MLX5_SEND_WQE_BB);
}

int check_queue(std::uint64_t queue, std::size_t bytes, std::uint64_t record)
{
    constexpr std::size_t record_bytes = 8;
    const int error = check_ring(queue, bytes);
    return error != 0 ? error : check(record, record_bytes, record_bytes);
}

int alloc_pd(Context& context, Command& command)
{
    ibv_pd* pd = softhca::alloc_pd(&context.hca.verbs.context);
    if (pd == nullptr) {
        return errno;
    }
    context.pds.add(pd->handle, std::make_unique<Pd>(*pd));
    ib_uverbs_alloc_pd_resp answer = {};
    answer.pd_handle = pd->handle;
    command.answer(answer);
    command.driver_answer(mlx5_ib_alloc_pd_resp{pd->handle});
    return 0;
}

int dealloc_pd(Context& context, Command& command)
{
    const auto handle = command.request<ib_uverbs_dealloc_pd>().pd_handle;
    Pd* pd = context.pds.find(handle);
    if (pd == nullptr) {
        return EINVAL;
    }
    if (pd->is_used()) {
        return EBUSY;
    }
    context.pds.remove(handle);
    return 0;
}

int reg_mr(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_reg_mr>();
    Pd* pd = context.pds.find(request.pd_handle);
    if (pd == nullptr) {
        return EINVAL;
    }
    ibv_mr* mr = softhca::register_memory(&pd->hca(), reinterpret_cast<void*>(request.start),
                                          request.length, request.hca_va, request.access_flags);
    if (mr == nullptr) {
        return errno;
    }
    context.mrs.add(mr->handle, std::make_unique<Mr>(*mr));
    ib_uverbs_reg_mr_resp answer = {};
    answer.mr_handle = mr->handle;
    answer.lkey = mr->lkey;
    answer.rkey = mr->rkey;
    command.answer(answer);
    return 0;
}

int rereg_mr(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_rereg_mr>();
    Mr* mr = context.mrs.find(request.mr_handle);
    Pd* pd = context.pds.find(request.pd_handle);
    const bool changes_pd = (request.flags & IBV_REREG_MR_CHANGE_PD) != 0;
    if (mr == nullptr || (changes_pd && pd == nullptr) ||
        ((request.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 &&
         request.start != request.hca_va)) {
        return EINVAL;
    }
    if (softhca::rereg_mr(&mr->hca, static_cast<int>(request.flags),
                          changes_pd ? &pd->hca() : nullptr, reinterpret_cast<void*>(request.start),
                          request.length, static_cast<int>(request.access_flags)) != 0) {
        return errno;
    }
    ib_uverbs_rereg_mr_resp answer = {};
    answer.lkey = mr->hca.lkey;
    answer.rkey = mr->hca.rkey;
    command.answer(answer);
    return 0;
}

int dereg_mr(Context& context, Command& command)
{
    const auto handle = command.request<ib_uverbs_dereg_mr>().mr_handle;
    Mr* mr = context.mrs.find(handle);
    if (mr == nullptr) {
        return EINVAL;
    }
    if (const int error = mr->deregister()) {
        return error;
    }
    context.mrs.remove(handle);
    return 0;
}

int alloc_mw(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_alloc_mw>();
    Pd* pd = context.pds.find(request.pd_handle);
    if (pd == nullptr) {
        return EINVAL;
    }
    ibv_mw* mw = softhca::alloc_mw(&pd->hca(), static_cast<ibv_mw_type>(request.mw_type));
    if (mw == nullptr) {
        return errno;
    }
    ib_uverbs_alloc_mw_resp answer = {};
    answer.mw_handle = mw->handle;
    answer.rkey = mw->rkey;
    context.mws.add(mw->handle, std::make_unique<Mw>(*mw));
    command.answer(answer);
    return 0;
}

int dealloc_mw(Context& context, Command& command)
{
    const auto handle = command.request<ib_uverbs_dealloc_mw>().mw_handle;
    if (context.mws.find(handle) == nullptr) {
        return EINVAL;
    }
    context.mws.remove(handle);
    return 0;
}

} // namespace softmlx5
