// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the packing kernels are given.
#pragma once

#include "kernels/divisor.hpp"

namespace gdr::kernels {

// Words that a thread has under way at a time.
constexpr uint32_t kWordsAtOnce = 4;

// Words at regular distances: nested loops, the innermost first. Word i of a launch is at
// memory + sum of index * stride over the levels, where the indices are the digits of i, to which
// those of the launch's first word (`start`) are added.
struct StridedCopy {
    struct Level {
        Divisor count;  // not used of the outermost level
        uint32_t start; // less than count; 0 for the outermost level
        int64_t stride; // bytes
    };
    static constexpr uint32_t kLevels = 5; // words of a block, 3 dimensions, elements

    uint64_t memory;
    uint64_t packed;
    uint32_t words;
    uint32_t levels; // at least 1
    Level level[kLevels];
};

// Words of a list of blocks, of one element or many.
struct ListCopy {
    uint64_t memory; // of the first element of the launch
    uint64_t packed;
    uint32_t words;
    Divisor element;    // words; divisor 0: all words are of one element
    uint64_t start;     // word of the first element that the launch begins with
    int64_t extent;     // bytes from one element to the next
    uint64_t offsets;   // address of int64_t[blocks]: bytes from an element to its blocks
    uint64_t positions; // of uint64_t[blocks]: bytes of the element packed before each block
    uint64_t hints;     // of uint32_t[]: the block with byte i << hint_shift of the packed element;
    uint32_t hint_shift; // one more at the end, the last block
};

} // namespace gdr::kernels
