// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The parameters of the packing kernels.
#pragma once

#include "kernels/divisor.hpp"

namespace gdr::kernels {

// Words that a thread copies at a time.
constexpr uint32_t kWordsAtOnce = 4;

// Words at regular distances: nested loops, the innermost first. Word i of a launch is at memory +
// sum of index * stride over the levels. The indices are the digits of i, plus those of the
// launch's first word (`start`).
struct StridedCopy {
    struct Level {
        Divisor count;  // not used in the outermost level
        uint32_t start; // less than count; 0 in the outermost level
        int64_t stride; // bytes
    };
    static constexpr uint32_t kLevels = 5; // words of a block, 3 dimensions, elements

    uint64_t memory;
    uint64_t packed;
    uint32_t words;
    uint32_t levels; // at least 1
    Level level[kLevels];
};

// Words of a list of blocks, in one element or many.
struct ListCopy {
    uint64_t memory; // of the first element of the launch
    uint64_t packed;
    uint32_t words;
    Divisor element;     // words; divisor 0: all words are in one element
    uint64_t start;      // the launch begins with this word of its first element
    int64_t extent;      // bytes from one element to the next
    uint64_t offsets;    // address of int64_t[blocks]: bytes from an element to its blocks
    uint64_t positions;  // address of uint64_t[blocks]: packed bytes before each block
    uint64_t hints;      // address of uint32_t[]: the block with byte i << hint_shift of the packed
    uint32_t hint_shift; // element; one more at the end, the last block
};

} // namespace gdr::kernels
