// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The send queue of an RC queue pair: a ring of blocks of 64 bytes. A work queue entry (WQE) takes
// as many blocks as it needs, its segments have 16 bytes each, and both may continue at the ring's
// beginning. The HCA learns of entries by the doorbell record, a count of blocks in host memory,
// and by a write to the doorbell register. A short entry can be written into that register itself
// (BlueFlame), which spares the HCA to fetch it.
//
// The caller takes care that no more work requests are under way than the queue pair was created
// for; the ring has room for as many of the largest kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <infiniband/mlx5dv.h>

namespace gdr::mlx5 {

class SendQueue {
  public:
    // own_register: no other thread writes to the register, so that BlueFlame may be used.
    SendQueue(const mlx5dv_qp& qp, uint32_t number, bool own_register);

    // Posts a list of work requests of the kinds that verbs::kSendOperations names. Returns 0, or
    // EINVAL with the first that was not posted.
    int post(ibv_send_wr* wr, ibv_send_wr** refused);

    // Of an entry that has completed, by its place as the HCA tells it.
    uint64_t wr_id(uint16_t place) const { return wr_ids_[place & mask_]; }

    // Copies what the HCA has put into a completion instead of into the memory that was named.
    void scatter(uint16_t place, const void* data, uint32_t length) const;

  private:
    static constexpr size_t kBlock = MLX5_SEND_WQE_BB;
    static constexpr size_t kSegment = 16;

    std::byte* block(uint16_t place) const { return ring_ + (place & mask_) * kBlock; }
    std::byte* wrapped(std::byte* at) const { return at == end_ ? ring_ : at; }
    unsigned write_pieces(std::byte* at, const ibv_send_wr& wr) const;
    unsigned write_inline(std::byte* at, const ibv_send_wr& wr) const;
    unsigned write(const ibv_send_wr& wr);
    int post_list(ibv_send_wr* wr, ibv_send_wr** refused);
    void tell();
    void write_register(const std::byte* entry, unsigned segments);

    std::byte* const ring_;
    std::byte* const end_;
    const uint32_t mask_;   // of blocks
    const uint32_t number_; // of the queue pair, where an entry has it
    uint16_t next_ = 0;     // block
    volatile uint32_t* const record_;
    std::byte* const register_;
    const uint32_t register_segments_; // that it takes at once; 0: no BlueFlame
    const uint32_t register_flip_;     // its two halves are used in turn
    uint32_t register_offset_ = 0;
    std::unique_ptr<uint64_t[]> wr_ids_; // by the entry's first block
};

} // namespace gdr::mlx5
