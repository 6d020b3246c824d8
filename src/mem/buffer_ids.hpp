// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which allocations a range of device memory is made of. CUDA numbers allocations and never uses a
// number again: what has another number now is other memory at the same address.
#pragma once

#include "cuda/pointer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gdr::mem {

class BufferIds {
  public:
    // From start on, which is behind all that were added before, it is this allocation.
    void add(uintptr_t start, uint64_t id) { pieces_.push_back({start, id}); }

    uint64_t first() const { return pieces_.front().id; }

    // Whether memory within the range is still of the same allocations. One call of the driver for
    // each that [address, address + length) touches.
    bool hold(const cuda::Driver& driver, uintptr_t address, size_t length) const
    {
        size_t at = pieces_.size() - 1;
        while (at > 0 && pieces_[at].start >= address + length)
            --at;
        for (;; --at) {
            const Piece& piece = pieces_[at];
            if (cuda::buffer_id(driver, reinterpret_cast<const void*>(piece.start)) != piece.id)
                return false;
            if (at == 0 || piece.start <= address)
                return true;
        }
    }

    // Whether any of the allocations is still there, other than those that begin in [start, end).
    bool any_left(const cuda::Driver& driver, uintptr_t start, uintptr_t end) const
    {
        return std::ranges::any_of(pieces_, [&](const Piece& piece) {
            return (piece.start < start || piece.start >= end) &&
                   cuda::buffer_id(driver, reinterpret_cast<const void*>(piece.start)) == piece.id;
        });
    }

  private:
    struct Piece {
        uintptr_t start;
        uint64_t id;
    };
    std::vector<Piece> pieces_;
};

} // namespace gdr::mem
