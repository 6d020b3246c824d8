// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Where the bytes of an element lie in memory, as in MPI's datatypes: nested loops over blocks of
// one length, or a list of blocks. In packed form, blocks and elements follow each other without
// gaps. Distances are in bytes and may be negative.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace gdr::kernels {

struct Dimension {
    uint64_t count;
    int64_t stride; // from one to the next
};

struct Block {
    int64_t offset; // from the element's address
    uint64_t length;
};

// Equal blocks in nested loops, the innermost first.
struct StridedBlocks {
    static constexpr size_t kMostLoops = 4; // three of a layout, and one over elements

    int64_t offset;
    uint64_t length; // of a block
    size_t loops = 0;
    std::array<Dimension, kMostLoops> loop{};

    // Adds an outer loop. Merges it with the outermost one if that leaves no gap. Throws
    // std::invalid_argument if there are four already.
    void repeat(Dimension around);
};

// One element. Immutable.
class Layout {
  public:
    static constexpr size_t kDimensions = 3;

    // dimensions: at most 3, the innermost first; throws std::invalid_argument if more remain after
    // merging. extent: from one element to the next.
    static Layout strided(int64_t offset, uint64_t block_length,
                          std::span<const Dimension> dimensions, int64_t extent);

    // Blocks in the order of packing. Adjacent blocks are merged, and a list of equal blocks at
    // equal distances becomes a loop. Throws std::length_error for 2^32 blocks or more.
    static Layout list(std::span<const Block> blocks, int64_t extent);

    uint64_t size() const { return size_; } // of a packed element, bytes
    int64_t extent() const { return extent_; }

    // nullptr: the layout is a list.
    const StridedBlocks* strided() const { return std::get_if<StridedBlocks>(&blocks_); }
    std::span<const Block> list() const { return std::get<std::vector<Block>>(blocks_); }

  private:
    using Blocks = std::variant<StridedBlocks, std::vector<Block>>;

    Layout(Blocks blocks, uint64_t size, int64_t extent);

    Blocks blocks_;
    uint64_t size_;
    int64_t extent_;
};

} // namespace gdr::kernels
