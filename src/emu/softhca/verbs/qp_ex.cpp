// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The ibv_wr_* functions: what is called between ibv_wr_start and ibv_wr_complete collects work
// requests, which are then posted together or not at all.
#include "emu/softhca/config.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/verbs/extended.hpp"

#include <cstring>

namespace softhca {
namespace {

WrBatch& batch_of(ibv_qp_ex* qp)
{
    return object_of<Qp>(qp).batch;
}

// Runs a function that may need memory; its lack is told by ibv_wr_complete.
template <class Function>
void collect(WrBatch& batch, Function function)
{
    try {
        function();
    } catch (const std::bad_alloc&) {
        batch.error = ENOMEM;
    }
}

template <class Fill>
void add(ibv_qp_ex* qp, ibv_wr_opcode opcode, Fill fill)
{
    WrBatch& batch = batch_of(qp);
    ibv_send_wr wr = {};
    wr.wr_id = qp->wr_id;
    wr.opcode = opcode;
    wr.send_flags = qp->wr_flags & ~unsigned{IBV_SEND_INLINE};
    fill(wr);
    collect(batch, [&] { batch.requests.push_back(wr); });
}

void add_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
              __be32 immediate = 0)
{
    add(qp, opcode, [&](ibv_send_wr& wr) {
        wr.imm_data = immediate;
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    });
}

void add_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                std::uint64_t compare_add, std::uint64_t swap)
{
    add(qp, opcode, [&](ibv_send_wr& wr) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = compare_add;
        wr.wr.atomic.swap = swap;
    });
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap)
{
    add_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t value)
{
    add_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, value, 0);
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info)
{
    add(qp, IBV_WR_BIND_MW, [&](ibv_send_wr& wr) {
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = rkey;
        wr.bind_mw.bind_info = *info;
    });
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t key)
{
    add(qp, IBV_WR_LOCAL_INV, [&](ibv_send_wr& wr) { wr.invalidate_rkey = key; });
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address)
{
    add_rdma(qp, IBV_WR_RDMA_READ, rkey, address);
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address)
{
    add_rdma(qp, IBV_WR_RDMA_WRITE, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate)
{
    add_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, immediate);
}

void wr_send(ibv_qp_ex* qp)
{
    add(qp, IBV_WR_SEND, [](ibv_send_wr&) {});
}

void wr_send_imm(ibv_qp_ex* qp, __be32 immediate)
{
    add(qp, IBV_WR_SEND_WITH_IMM, [&](ibv_send_wr& wr) { wr.imm_data = immediate; });
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t key)
{
    add(qp, IBV_WR_SEND_WITH_INV, [&](ibv_send_wr& wr) { wr.invalidate_rkey = key; });
}

// The setters complete the latest request; without one there is nothing to complete.
ibv_send_wr* latest(WrBatch& batch)
{
    if (batch.requests.empty()) {
        batch.error = EINVAL;
        return nullptr;
    }
    return &batch.requests.back();
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t number, std::uint32_t qkey)
{
    if (ibv_send_wr* wr = latest(batch_of(qp))) {
        wr->wr.ud = {ah, number, qkey};
    }
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list)
{
    WrBatch& batch = batch_of(qp);
    if (ibv_send_wr* wr = latest(batch)) {
        collect(batch, [&] { batch.sges.insert(batch.sges.end(), list, list + count); });
        wr->num_sge = static_cast<int>(count);
    }
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length)
{
    const ibv_sge sge = {address, length, lkey};
    wr_set_sge_list(qp, 1, &sge);
}

// Inline data is copied at once, as the program may use its buffer again.
void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list)
{
    WrBatch& batch = batch_of(qp);
    ibv_send_wr* wr = latest(batch);
    if (wr == nullptr) {
        return;
    }
    collect(batch, [&] {
        const std::size_t start = batch.inline_data.size(); // made an address at the end
        for (std::size_t i = 0; i < count; ++i) {
            const auto* data = static_cast<const std::uint8_t*>(list[i].addr);
            batch.inline_data.insert(batch.inline_data.end(), data, data + list[i].length);
        }
        batch.sges.push_back(
            {start, static_cast<std::uint32_t>(batch.inline_data.size() - start), 0});
    });
    wr->num_sge = 1;
    wr->send_flags |= IBV_SEND_INLINE;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t length)
{
    const ibv_data_buf data = {address, length};
    wr_set_inline_data_list(qp, 1, &data);
}

void wr_start(ibv_qp_ex* qp)
{
    object_of<Qp>(qp).one_thread.enter("QP");
    batch_of(qp).mutex.lock(); // until the end, so that threads may share the QP
}

void finish(ibv_qp_ex* qp)
{
    WrBatch& batch = batch_of(qp);
    batch.requests.clear();
    batch.sges.clear();
    batch.inline_data.clear();
    batch.error = 0;
    batch.mutex.unlock();
    object_of<Qp>(qp).one_thread.leave();
}

int wr_complete(ibv_qp_ex* extended)
{
    Qp& qp = object_of<Qp>(extended);
    WrBatch& batch = qp.batch;
    int error = batch.error;
    if (error == 0 && !batch.requests.empty()) {
        ibv_sge* sge = batch.sges.data();
        for (ibv_send_wr& wr : batch.requests) {
            wr.sg_list = sge;
            wr.next = &wr == &batch.requests.back() ? nullptr : &wr + 1;
            if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
                sge->addr += reinterpret_cast<std::uint64_t>(batch.inline_data.data());
            }
            sge += wr.num_sge;
        }
        ibv_send_wr* bad;
        error = post_send_list(*context_of(qp.base.context).process, qp, batch.requests.data(),
                               &bad, true);
    }
    context_of(qp.base.context).process->batches.fetch_add(1, std::memory_order_relaxed);
    finish(extended);
    return error;
}

void wr_abort(ibv_qp_ex* qp)
{
    finish(qp);
}

// Whether a device's QPs of this type have these IBV_QP_EX_WITH_*, and the ibv_wr_* functions for
// them all.
bool are_send_ops_known(unsigned device, ibv_qp_type type, std::uint64_t ops)
{
    constexpr std::uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    constexpr std::uint64_t uc = ud | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
                                 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                 IBV_QP_EX_WITH_BIND_MW;
    constexpr std::uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    const std::uint64_t known = type == IBV_QPT_UD ? ud : type == IBV_QPT_UC ? uc : rc;
    return profile_of(device).wr_functions && (ops & ~known) == 0;
}

void set_send_ops(ibv_qp_ex& qp)
{
    qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
    qp.wr_bind_mw = wr_bind_mw;
    qp.wr_local_inv = wr_local_inv;
    qp.wr_rdma_read = wr_rdma_read;
    qp.wr_rdma_write = wr_rdma_write;
    qp.wr_rdma_write_imm = wr_rdma_write_imm;
    qp.wr_send = wr_send;
    qp.wr_send_imm = wr_send_imm;
    qp.wr_send_inv = wr_send_inv;
    qp.wr_set_ud_addr = wr_set_ud_addr;
    qp.wr_set_inline_data = wr_set_inline_data;
    qp.wr_set_inline_data_list = wr_set_inline_data_list;
    qp.wr_set_sge = wr_set_sge;
    qp.wr_set_sge_list = wr_set_sge_list;
    qp.wr_start = wr_start;
    qp.wr_complete = wr_complete;
    qp.wr_abort = wr_abort;
}

} // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* extended)
{
    const std::uint32_t mask = extended->comp_mask;
    const std::uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    const bool has_send_ops = (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if ((mask & ~known) != 0 || (mask & IBV_QP_INIT_ATTR_PD) == 0 ||
        ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && extended->create_flags != 0) ||
        (has_send_ops && !are_send_ops_known(context_of(context).device, extended->qp_type,
                                             extended->send_ops_flags))) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    ibv_qp_init_attr init = {};
    std::memcpy(&init, extended, sizeof init); // begins with the same fields, by design of verbs
    ibv_qp* qp = create_qp(extended->pd, init);
    if (qp != nullptr && has_send_ops) {
        set_send_ops(object_of<Qp>(qp).extended);
    }
    extended->cap = init.cap;
    return qp;
}

} // namespace softhca

#pragma GCC visibility push(default)
extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp)
{
    ibv_qp_ex& extended = softhca::object_of<softhca::Qp>(qp).extended;
    return extended.wr_start == nullptr ? nullptr : &extended;
}
#pragma GCC visibility pop
