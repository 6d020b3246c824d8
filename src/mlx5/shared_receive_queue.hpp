// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A shared receive queue: entries that each name the next one. The HCA follows them from one that
// was posted to the next; entries that it is done with are appended, in the order in which they
// come back. One entry is never posted: it is the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include <endian.h>
#include <infiniband/mlx5dv.h>

namespace gdr::mlx5 {

class SharedReceiveQueue {
  public:
    static constexpr size_t kShortestReceive = 64; // bytes

    // As libmlx5 has made it; nothing was posted.
    explicit SharedReceiveQueue(const mlx5dv_srq& srq);

    // Posts a list of receives with one piece each. Returns 0, or ENOMEM with the first for which
    // there is no entry.
    int post(ibv_recv_wr* wr, ibv_recv_wr** refused);

    // The entry has completed, and can be posted again.
    uint64_t take(uint16_t entry)
    {
        next_of(tail_).next_wqe_index = htobe16(entry);
        tail_ = entry;
        return wr_ids_[entry];
    }

    // Copies what the HCA has put into a completion instead of into the entry's memory: all that
    // the completion has room for, as that is quicker than as much as the message has.
    template <size_t kRoom>
    void scatter(uint16_t entry, const void* data) const
    {
        static_assert(kRoom <= kShortestReceive);
        std::memcpy(reinterpret_cast<void*>(be64toh(pieces_of(entry)->addr)), data, kRoom);
    }

  private:
    mlx5_wqe_srq_next_seg& next_of(uint16_t entry) const
    {
        return *reinterpret_cast<mlx5_wqe_srq_next_seg*>(ring_ + entry * stride_);
    }
    mlx5_wqe_data_seg* pieces_of(uint16_t entry) const
    {
        return reinterpret_cast<mlx5_wqe_data_seg*>(&next_of(entry) + 1);
    }

    std::byte* const ring_;
    const size_t stride_;
    volatile uint32_t* const record_;
    uint16_t head_; // the next to be posted
    uint16_t tail_; // the end
    uint16_t posted_ = 0;
    std::unique_ptr<uint64_t[]> wr_ids_;
};

} // namespace gdr::mlx5
