// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A completion queue: a ring of entries (CQE) that the HCA writes. A bit of each entry says in
// which round it was written, and so whether it is new.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/mlx5dv.h>

namespace gdr::mlx5 {

class CompletionQueue {
  public:
    explicit CompletionQueue(const mlx5dv_cq& cq);

    // The next entry, or NULL. It is valid until release().
    const mlx5_cqe64* next()
    {
        const auto* entry = reinterpret_cast<const mlx5_cqe64*>(ring_ + (next_ & mask_) * stride_ +
                                                                stride_ - sizeof(mlx5_cqe64));
        const uint8_t op_own = *const_cast<const volatile uint8_t*>(&entry->op_own);
        // The HCA writes its bit of the round; an entry that was never written is invalid.
        if ((op_own & MLX5_CQE_OWNER_MASK) != ((next_ >> round_shift_) & 1) ||
            op_own >> 4 == MLX5_CQE_INVALID) {
            return nullptr;
        }
        ++next_;
        return entry;
    }

    // The HCA may write all entries again that next() has returned.
    void release();

    // An event is raised by the next completion. events: how many there were since the last call.
    void arm(unsigned events);

  private:
    std::byte* const ring_;
    const size_t stride_;
    const uint32_t mask_;
    const unsigned round_shift_;
    uint32_t next_ = 0;
    uint32_t armed_ = 0; // counts events: a request to notify holds for one
    volatile uint32_t* const record_;
    volatile uint64_t* const register_;
    const uint32_t number_;
};

} // namespace gdr::mlx5
