// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A send queue's ring of 64-byte blocks in the program's memory, and a work request in it, which
// may wrap around at the end.
#pragma once

#include "emu/softmlx5/abi.hpp"
#include "emu/softmlx5/program_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <endian.h>

namespace softmlx5 {

struct SendRing {
    std::uint8_t* start = nullptr;
    std::uint32_t blocks = 0; // a power of two

    std::size_t bytes() const { return std::size_t{blocks} * MLX5_SEND_WQE_BB; }
};

class Wqe {
  public:
    Wqe(const SendRing& ring, std::uint16_t counter)
        : ring_(ring), start_(std::size_t{counter & (ring.blocks - 1)} * MLX5_SEND_WQE_BB)
    {
    }

    // Copies it out of the ring; false: that is not there any more.
    bool read()
    {
        constexpr unsigned kInSegments = 0x3f, kSegment = 16; // the length, in its first segment
        if (!read(0, MLX5_SEND_WQE_BB)) {
            return false;
        }
        bytes_ = (be32toh(at<mlx5_wqe_ctrl_seg>(0).qpn_ds) & kInSegments) * kSegment;
        return bytes_ <= MLX5_SEND_WQE_BB ||
               read(MLX5_SEND_WQE_BB, std::min(bytes_, ring_.bytes()) - MLX5_SEND_WQE_BB);
    }
    std::size_t bytes() const { return bytes_; }

    template <class Segment>
    Segment at(std::size_t offset) const
    {
        Segment segment;
        std::memcpy(&segment, &copy_[offset], sizeof segment);
        return segment;
    }

    // Calls visit(start, length) for the one or two pieces of memory that bytes of it are in.
    template <class Visit>
    void for_each_piece(std::size_t offset, std::size_t length, Visit visit) const
    {
        const std::size_t at = (start_ + offset) & (ring_.bytes() - 1);
        const std::size_t first = std::min(length, ring_.bytes() - at);
        visit(ring_.start + at, first);
        if (first != length) {
            visit(ring_.start, length - first);
        }
    }

  private:
    bool read(std::size_t offset, std::size_t length)
    {
        bool whole = true;
        for_each_piece(offset, length, [&](const std::uint8_t* piece, std::size_t size) {
            whole = whole && read_program(&copy_[offset], piece, size);
            offset += size;
        });
        return whole;
    }

    static constexpr std::size_t kMost = 1024; // as many as its length can tell, and one segment
    const SendRing& ring_;
    const std::size_t start_;
    std::size_t bytes_ = 0;
    std::array<std::uint8_t, kMost> copy_{};
};

} // namespace softmlx5
