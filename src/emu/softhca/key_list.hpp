// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of lists of keys: each grants access to a range of memory that lies, in pieces of the same
// length, in regions. A piece is looked up when it is used, so that a region may end before.
#pragma once

#include "emu/softhca/objects.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

class KeyList {
  public:
    struct Range {
        std::uint64_t iova, length;
        unsigned log_piece;
        std::uint32_t access; // of the regions it needs no more than local access
        std::uint8_t low;     // byte of the key
    };

    KeyList(ibv_pd& pd, const Range& range, std::span<const KeyEntry> entries); // std::bad_alloc
    ~KeyList();
    KeyList(const KeyList&) = delete;
    KeyList& operator=(const KeyList&) = delete;

    std::uint32_t index() const { return index_; }
    std::uint32_t key() const { return key_; }

  private:
    Process& process() const { return *context_of(pd_.context).process; }

    ibv_pd& pd_;
    std::uint32_t index_, key_;
    std::uint64_t offset_; // of the entries in the arena
    std::size_t bytes_;
};

} // namespace softhca
