// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The allocations that a range of device memory consists of. CUDA numbers allocations and never
// reuses a number, so a different number means different memory at the same address.
#pragma once

#include "cuda/pointer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gdr::mem {

class BufferIds {
  public:
    // The allocation id begins at start, which is behind all that were added before.
    void add(uintptr_t start, uint64_t id) { pieces_.push_back({start, id}); }

    uint64_t first() const { return pieces_.front().id; }

    // Whether the memory is still of the same allocations. Costs one driver call for each
    // allocation that [address, address + length) touches.
    bool hold(const cuda::Driver& driver, uintptr_t address, size_t length) const
    {
        size_t at = pieces_.size() - 1;
        while (at > 0 && pieces_[at].start >= address + length) {
            --at;
        }
        for (;; --at) {
            const Piece& piece = pieces_[at];
            if (cuda::buffer_id(driver, reinterpret_cast<const void*>(piece.start)) != piece.id) {
                return false;
            }
            if (at == 0 || piece.start <= address) {
                return true;
            }
        }
    }

    // Whether any of the allocations still exists, apart from those that begin in [start, end).
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
