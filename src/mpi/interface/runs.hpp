// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Bytes of a buffer, as rows.
#pragma once

#include "mpi/interface/small_vector.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::mpi {

// Rows of the same length, with the same stride. Offsets are relative to the buffer's address.
struct Run {
    intptr_t offset;
    size_t length;
    ptrdiff_t stride; // may be negative
    size_t rows;

    intptr_t last_row() const { return offset + stride * static_cast<ptrdiff_t>(rows - 1); }
    bool in_one_piece() const { return rows == 1 || stride == static_cast<ptrdiff_t>(length); }

    bool operator==(const Run&) const = default;
};

using Runs = SmallVector<Run>;

// Appends a run; merges it with the last one if they are adjacent.
void append(Runs& runs, const Run& run);

// Appends equal elements, the first one displaced by `at` bytes, each next one by `extent` more.
void append_repeated(Runs& runs, const Runs& element, int64_t count, intptr_t extent, intptr_t at);

} // namespace gdr::mpi
