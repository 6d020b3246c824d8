// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A send queue's ring of 64-byte blocks in the program's memory, and a work request in it, which
// may wrap around at the end.
#pragma once

#include "emu/softmlx5/abi.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

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

    template <class Segment>
    Segment at(std::size_t offset) const
    {
        Segment segment;
        auto* to = reinterpret_cast<std::uint8_t*>(&segment);
        for_each_piece(offset, sizeof segment, [&](const std::uint8_t* piece, std::size_t length) {
            std::memcpy(to, piece, length);
            to += length;
        });
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
    const SendRing& ring_;
    const std::size_t start_;
};

} // namespace softmlx5
