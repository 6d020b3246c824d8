// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the HCA is told of a completion queue.
#include "mlx5/completion_queue.hpp"

#include "mlx5/barriers.hpp"

#include <bit>

#include <endian.h>

namespace gdr::mlx5 {
namespace {

// Of the doorbell record, and of the register.
constexpr unsigned kConsumed = 0, kArmed = 1;
constexpr size_t kRegisterOffset = 0x20;
constexpr uint32_t kIndexMask = 0xffffff;

} // namespace

CompletionQueue::CompletionQueue(const mlx5dv_cq& cq)
    : ring_(static_cast<std::byte*>(cq.buf)), stride_(cq.cqe_size), mask_(cq.cqe_cnt - 1),
      round_shift_(static_cast<unsigned>(std::countr_zero(cq.cqe_cnt))),
      record_(reinterpret_cast<volatile uint32_t*>(cq.dbrec)),
      register_(reinterpret_cast<volatile uint64_t*>(static_cast<std::byte*>(cq.cq_uar) +
                                                     kRegisterOffset)),
      number_(cq.cqn)
{
}

void CompletionQueue::release()
{
    order_stores();
    record_[kConsumed] = htobe32(next_ & kIndexMask);
}

void CompletionQueue::arm(unsigned events)
{
    armed_ += events;
    const uint32_t request = (armed_ & 3) << 28 | (next_ & kIndexMask);
    record_[kArmed] = htobe32(request);
    order_register_stores();
    *register_ = htobe64(uint64_t{request} << 32 | number_);
    order_register_stores();
}

} // namespace gdr::mlx5
