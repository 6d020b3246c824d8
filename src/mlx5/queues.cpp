// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a completion tells, and which queue it belongs to.
#include "mlx5/queues.hpp"

#include "mlx5/barriers.hpp"
#include "mlx5/library.hpp"

#include <endian.h>

namespace gdr::mlx5 {
namespace {

constexpr unsigned kQpNumberBits = 24;
constexpr uint32_t kQpNumberMask = (1 << kQpNumberBits) - 1;

// The entry of an operation that failed has its reason, and no length.
struct ErrorEntry {
    uint8_t other[54];
    uint8_t vendor_syndrome;
    uint8_t syndrome;
    uint8_t rest[8];
};
static_assert(sizeof(ErrorEntry) == sizeof(mlx5_cqe64));

ibv_wc_status status_of(uint8_t syndrome)
{
    switch (syndrome) {
    case MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR:
        return IBV_WC_LOC_LEN_ERR;
    case MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR:
        return IBV_WC_LOC_QP_OP_ERR;
    case MLX5_CQE_SYNDROME_LOCAL_PROT_ERR:
        return IBV_WC_LOC_PROT_ERR;
    case MLX5_CQE_SYNDROME_WR_FLUSH_ERR:
        return IBV_WC_WR_FLUSH_ERR;
    case MLX5_CQE_SYNDROME_MW_BIND_ERR:
        return IBV_WC_MW_BIND_ERR;
    case MLX5_CQE_SYNDROME_BAD_RESP_ERR:
        return IBV_WC_BAD_RESP_ERR;
    case MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR:
        return IBV_WC_LOC_ACCESS_ERR;
    case MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR:
        return IBV_WC_REM_INV_REQ_ERR;
    case MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR:
        return IBV_WC_REM_ACCESS_ERR;
    case MLX5_CQE_SYNDROME_REMOTE_OP_ERR:
        return IBV_WC_REM_OP_ERR;
    case MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR:
        return IBV_WC_RETRY_EXC_ERR;
    case MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR:
        return IBV_WC_RNR_RETRY_EXC_ERR;
    case MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR:
        return IBV_WC_REM_ABORT_ERR;
    default:
        return IBV_WC_GENERAL_ERR;
    }
}

ibv_wc_opcode sent(uint32_t opcode)
{
    switch (opcode) {
    case MLX5_OPCODE_RDMA_WRITE:
        return IBV_WC_RDMA_WRITE;
    case MLX5_OPCODE_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case MLX5_OPCODE_ATOMIC_CS:
        return IBV_WC_COMP_SWAP;
    case MLX5_OPCODE_ATOMIC_FA:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

// Short data can be in the completion itself, before its end, or before the whole of it.

[[gnu::always_inline]] inline void scatter(const SharedReceiveQueue& queue, uint16_t place,
                                           const mlx5_cqe64& entry)
{
    if (entry.op_own & MLX5_INLINE_SCATTER_32) {
        queue.scatter<32>(place, &entry);
    } else if (entry.op_own & MLX5_INLINE_SCATTER_64) {
        queue.scatter<64>(place, &entry - 1);
    }
}

[[gnu::always_inline]] inline void scatter(const SendQueue& queue, uint16_t place,
                                           const mlx5_cqe64& entry)
{
    if (entry.op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)) [[unlikely]] {
        const void* data = entry.op_own & MLX5_INLINE_SCATTER_32 ? &entry : &entry - 1;
        queue.scatter(place, data, be32toh(entry.byte_cnt));
    }
}

} // namespace

Queues::Queues(ibv_cq* cq) : cq_(describe(cq)), pages_(1 << (kQpNumberBits - kPageBits))
{
    cq->cq_context = this;
}

void Queues::add(ibv_srq* srq)
{
    srq_.emplace(describe(srq));
    srq->srq_context = this;
}

void Queues::add(ibv_qp* qp, bool own_register)
{
    std::unique_ptr<Page>& page = pages_[qp->qp_num >> kPageBits];
    if (!page) {
        page = std::make_unique<Page>();
    }
    page->of(qp->qp_num) = std::make_unique<SendQueue>(describe(qp), qp->qp_num, own_register);
}

void Queues::remove(uint32_t qp_number)
{
    if (Page* page = pages_[qp_number >> kPageBits].get(); page != nullptr) {
        page->of(qp_number).reset();
    }
}

int Queues::post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused)
{
    auto& queues = *static_cast<Queues*>(qp->send_cq->cq_context);
    return queues.find(qp->qp_num)->post(wr, refused);
}

int Queues::post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** refused)
{
    return static_cast<Queues*>(srq->srq_context)->srq_->post(wr, refused);
}

int Queues::poll_cq(ibv_cq* cq, int most, ibv_wc* completions)
{
    auto& queues = *static_cast<Queues*>(cq->cq_context);
    int count = 0;
    const mlx5_cqe64* entry = queues.cq_.next();
    if (entry == nullptr) {
        return 0;
    }
    do {
        order_loads();
        count += queues.read(*entry, completions[count]);
    } while (count < most && (entry = queues.cq_.next()) != nullptr);
    queues.cq_.release();
    return count;
}

[[gnu::always_inline]] inline void Queues::read_received(const mlx5_cqe64& entry,
                                                         ibv_wc& completion)
{
    const uint16_t place = be16toh(entry.wqe_counter);
    completion.imm_data = entry.imm_inval_pkey;
    completion.byte_len = be32toh(entry.byte_cnt);
    scatter(*srq_, place, entry);
    completion.wr_id = srq_->take(place);
}

// False: it is of a queue pair that was removed.
[[gnu::always_inline]] inline bool Queues::read(const mlx5_cqe64& entry, ibv_wc& completion)
{
    const uint32_t number_and_opcode = be32toh(entry.sop_drop_qpn);
    const uint16_t place = be16toh(entry.wqe_counter);
    const unsigned kind = entry.op_own >> 4;
    completion.status = IBV_WC_SUCCESS;
    completion.qp_num = number_and_opcode & kQpNumberMask;
    if (kind == MLX5_CQE_RESP_SEND_IMM) [[likely]] {
        completion.opcode = IBV_WC_RECV;
        completion.wc_flags = IBV_WC_WITH_IMM;
        read_received(entry, completion);
        return true;
    }
    if (kind == MLX5_CQE_REQ) {
        const SendQueue* queue = find(completion.qp_num);
        if (queue == nullptr) [[unlikely]] {
            return false;
        }
        completion.opcode = sent(number_and_opcode >> kQpNumberBits);
        scatter(*queue, place, entry);
        completion.wr_id = queue->wr_id(place);
        return true;
    }
    return read_other(entry, kind, place, completion);
}

// What a peer that is not ours has sent, and failures.
[[gnu::cold, gnu::noinline]] bool Queues::read_other(const mlx5_cqe64& entry, unsigned kind,
                                                     uint16_t place, ibv_wc& completion)
{
    switch (kind) {
    case MLX5_CQE_RESP_WR_IMM:
    case MLX5_CQE_RESP_SEND:
    case MLX5_CQE_RESP_SEND_INV:
        completion.opcode = kind == MLX5_CQE_RESP_WR_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
        completion.wc_flags = kind == MLX5_CQE_RESP_WR_IMM     ? IBV_WC_WITH_IMM
                              : kind == MLX5_CQE_RESP_SEND_INV ? IBV_WC_WITH_INV
                                                               : 0;
        read_received(entry, completion);
        return true;
    case MLX5_CQE_RESP_ERR:
        completion.wr_id = srq_->take(place);
        break;
    default: { // MLX5_CQE_REQ_ERR
        const SendQueue* queue = find(completion.qp_num);
        if (queue == nullptr) {
            return false;
        }
        completion.wr_id = queue->wr_id(place);
        break;
    }
    }
    const auto& error = reinterpret_cast<const ErrorEntry&>(entry);
    completion.status = status_of(error.syndrome);
    completion.vendor_err = error.vendor_syndrome;
    return true;
}

} // namespace gdr::mlx5
