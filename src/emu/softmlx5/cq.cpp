// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion queues, see cq.hpp.
#include "emu/softmlx5/cq.hpp"

#include "emu/softhca/cq.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/qp.hpp"

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include <endian.h>
#include <time.h>

namespace softmlx5 {
namespace {

enum RecordWord { kPolled, kArmed };

// In the record while the queue is not armed: no arming looks like it.
constexpr std::uint32_t kNotArmed = ~0u;
constexpr std::uint32_t kCounter = 0xffffff; // of completions, as the record has it

std::uint8_t syndrome_of(ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return 0;
    case IBV_WC_LOC_LEN_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
    case IBV_WC_LOC_PROT_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
    case IBV_WC_WR_FLUSH_ERR:
        return MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
    case IBV_WC_MW_BIND_ERR:
        return MLX5_CQE_SYNDROME_MW_BIND_ERR;
    case IBV_WC_BAD_RESP_ERR:
        return MLX5_CQE_SYNDROME_BAD_RESP_ERR;
    case IBV_WC_LOC_ACCESS_ERR:
        return MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR;
    case IBV_WC_REM_ACCESS_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
    case IBV_WC_REM_OP_ERR:
        return MLX5_CQE_SYNDROME_REMOTE_OP_ERR;
    case IBV_WC_RETRY_EXC_ERR:
        return MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR;
    default:
        return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
    }
}

std::uint8_t response_opcode(const ibv_wc& wc)
{
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        return MLX5_CQE_RESP_WR_IMM;
    }
    return (wc.wc_flags & IBV_WC_WITH_IMM) != 0   ? MLX5_CQE_RESP_SEND_IMM
           : (wc.wc_flags & IBV_WC_WITH_INV) != 0 ? MLX5_CQE_RESP_SEND_INV
                                                  : MLX5_CQE_RESP_SEND;
}

std::uint64_t timestamp()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace

Cq::Cq(ibv_cq& hca, const CqRequest& request, std::shared_ptr<CompletionChannel> channel,
       std::shared_ptr<AsyncChannel> async)
    : hca_(hca), user_handle_(request.user_handle),
      ring_(reinterpret_cast<std::uint8_t*>(request.memory.buf_addr)),
      record_(reinterpret_cast<std::uint32_t*>(request.memory.db_addr)),
      entry_size_(request.memory.cqe_size), entries_(std::bit_ceil(request.cqe + 1)),
      ignores_overrun_(request.ignores_overrun), channel_(std::move(channel)),
      async_(std::move(async))
{
    record_[kArmed] = kNotArmed;
}

Cq::~Cq()
{
    softhca::destroy_cq(&hca_);
}

bool Cq::collect(Adapter& adapter)
{
    constexpr int batch = 32;
    softhca::Cq& queue = softhca::object_of<softhca::Cq>(&hca_);
    softhca::Process& self = *softhca::context_of(hca_.context).process;
    softhca::CqShared& shared = self.arena().cq(queue.index);
    if (!softhca::has_entries(queue, shared)) {
        return false;
    }
    ibv_wc completions[batch];
    softhca::Payload payloads[batch];
    const int count = softhca::take_completions(queue, batch, completions, payloads);
    for (int i = 0; i < count; ++i) {
        translate(adapter, completions[i], payloads[i]);
    }
    if (count != 0) {
        const softhca::SharedGuard guard(shared.lock, self.token());
        solicited_ |= shared.last_solicited != latest_solicited_;
        latest_solicited_ = shared.last_solicited;
    }
    return count != 0;
}

void Cq::translate(Adapter& adapter, const ibv_wc& wc, const softhca::Payload& payload)
{
    const Qp* qp = adapter.find_qp(wc.qp_num);
    if (qp == nullptr || wc.wr_id == RequestId::kInternal) { // or it is just being destroyed
        return;
    }
    const std::uint8_t syndrome = syndrome_of(wc.status);
    mlx5_cqe64 entry = {};
    entry.srqn_uidx = htobe32(qp->user_index());
    entry.byte_cnt = htobe32(wc.byte_len);
    if ((wc.opcode & IBV_WC_RECV) == 0) {
        const RequestId request(wc.wr_id);
        entry.sop_drop_qpn = htobe32(std::uint32_t{request.opcode} << 24 | wc.qp_num);
        entry.wqe_counter = htobe16(request.counter);
        append(entry, syndrome == 0 ? MLX5_CQE_REQ : MLX5_CQE_REQ_ERR, syndrome);
        return;
    }
    entry.sop_drop_qpn = htobe32(wc.qp_num);
    entry.wqe_counter = htobe16(static_cast<std::uint16_t>(wc.wr_id));
    if (syndrome != 0) {
        append(entry, MLX5_CQE_RESP_ERR, syndrome);
        return;
    }
    const bool is_global = (wc.wc_flags & IBV_WC_GRH) != 0;
    entry.flags_rqpn =
        htobe32((is_global ? 1u << 28 : 0u) | std::uint32_t{wc.sl} << 24 | (wc.src_qp & 0xffffff));
    entry.slid = htobe16(static_cast<std::uint16_t>(wc.slid));
    entry.imm_inval_pkey =
        (wc.wc_flags & IBV_WC_WITH_INV) != 0 ? htobe32(wc.invalidated_rkey) : wc.imm_data;
    append(entry, response_opcode(wc), syndrome, payload);
}

std::uint32_t Cq::unpolled() const
{
    return (produced_ - be32toh(std::atomic_ref(record_[kPolled]).load())) & kCounter;
}

void Cq::append(mlx5_cqe64& entry, std::uint8_t opcode, std::uint8_t syndrome,
                const softhca::Payload& payload)
{
    if (!ignores_overrun_ && unpolled() >= entries_) {
        report_overrun();
    }
    if (overrun_) {
        return;
    }
    entry.timestamp = htobe64(timestamp());
    if (syndrome != 0) {
        constexpr std::size_t kSyndrome = 55; // of an entry that tells of an error
        reinterpret_cast<std::uint8_t*>(&entry)[kSyndrome] = syndrome;
    }
    std::uint8_t* const start = ring_ + std::size_t{(produced_ & (entries_ - 1))} * entry_size_;
    std::uint8_t* const end = start + entry_size_;
    std::uint8_t format = 0;
    if (payload.length != 0) {
        const bool is_before = entry_size_ != sizeof entry;
        std::memcpy(is_before ? static_cast<void*>(start) : &entry, payload.bytes, payload.length);
        format = is_before ? MLX5_INLINE_SCATTER_64 : MLX5_INLINE_SCATTER_32;
    }
    const bool owner = (produced_ & entries_) != 0;
    entry.op_own = static_cast<std::uint8_t>(opcode << 4 | format | (owner ? 1 : 0));
    // The owner bit makes an entry valid: the word that has it comes last.
    std::uint32_t last;
    constexpr std::size_t before = sizeof entry - sizeof last;
    std::memcpy(&last, reinterpret_cast<const std::uint8_t*>(&entry) + before, sizeof last);
    std::memcpy(end - sizeof entry, &entry, before);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(end - sizeof last))
        .store(last, std::memory_order_release);
    ++produced_;
}

void Cq::resize(const mlx5_ib_resize_cq& memory, std::uint32_t entries)
{
    mlx5_cqe64 entry = {};
    append(entry, MLX5_CQE_RESIZE_CQ); // the last one in the former ring
    ring_ = reinterpret_cast<std::uint8_t*>(memory.buf_addr);
    entry_size_ = memory.cqe_size;
    entries_ = entries;
}

void Cq::report_overrun()
{
    if (!std::exchange(overrun_, true) && async_ != nullptr) {
        ++async_events_;
        async_->write({user_handle_, IBV_EVENT_CQ_ERR, 0});
    }
}

void Cq::notify()
{
    if (channel_ == nullptr) {
        return;
    }
    const std::atomic_ref<std::uint32_t> word(record_[kArmed]);
    std::uint32_t raw = word.load(std::memory_order_acquire);
    if (raw == kNotArmed) {
        return;
    }
    const std::uint32_t armed = be32toh(raw);
    const std::uint32_t since = (produced_ - armed) & kCounter;
    const bool is_due = since != 0 && since <= kCounter / 2 &&
                        ((armed & MLX5_CQ_DB_REQ_NOT_SOL) == 0 || solicited_);
    // The program may just be arming again.
    if (is_due && word.compare_exchange_strong(raw, kNotArmed)) {
        solicited_ = false;
        ++completion_events_;
        channel_->write({user_handle_});
    }
}

ib_uverbs_destroy_cq_resp Cq::end()
{
    if (channel_ != nullptr) {
        completion_events_ -= channel_->take_back(
            [this](const auto& event) { return event.cq_handle == user_handle_; });
    }
    if (async_ != nullptr) {
        async_events_ -= async_->take_back([this](const auto& event) {
            return event.event_type == IBV_EVENT_CQ_ERR && event.element == user_handle_;
        });
    }
    return {completion_events_, async_events_};
}

} // namespace softmlx5
