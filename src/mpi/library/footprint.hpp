// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which bytes of a buffer its count and datatype are: those that are to be copied, and no others,
// as others may be those of another operation or of a kernel.
#pragma once

#include "mpi/library/library.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gdr::mpi {

// Rows of the same length, the same stride apart. Offsets are relative to the buffer's address.
struct Run {
    intptr_t offset;
    size_t length;
    ptrdiff_t stride; // may be negative
    size_t rows;

    intptr_t last_row() const { return offset + stride * static_cast<ptrdiff_t>(rows - 1); }
    bool in_one_piece() const { return rows == 1 || stride == static_cast<ptrdiff_t>(length); }

    bool operator==(const Run&) const = default;
};

// Equal elements at equal distances, each of these runs, which are in the order in which MPI packs
// them.
struct Elements {
    std::vector<Run> runs; // of the first, relative to the buffer's address; not empty
    int64_t count;
    intptr_t extent; // bytes from one to the next

    bool operator==(const Elements&) const = default;

    uint64_t element_bytes() const;
    bool in_one_piece() const;

    // The first byte's offset, and the offset behind the last.
    intptr_t low() const;
    intptr_t high() const;
};

class Footprint {
  public:
    // Adds count elements of a type whose first is displaced by so many bytes.
    void add(const Library& library, Word type, int64_t count, intptr_t displacement);

    void add_bytes(intptr_t first, int64_t length);
    void add(const Footprint& other);
    void add(Elements elements) { parts_.push_back(std::move(elements)); }

    bool empty() const { return parts_.empty(); }

    // What was added, in that order.
    const std::vector<Elements>& parts() const { return parts_; }

    // All of them one by one, merged where they follow each other.
    std::vector<Run> runs() const;

    // Whether no byte within the runs is in a gap. They are exact unless MPI does not tell how a
    // type was made (MPI_Type_create_darray, types of large counts), or a pair has padding within.
    bool exact() const { return exact_; }

    // Bytes in one piece that MPI libraries, too, see to be so and hand to their transport as they
    // are: of predefined types, MPI_Type_contiguous and MPI_Type_dup.
    bool plain() const;

    // As of elements. Not if it is empty.
    intptr_t low() const;
    intptr_t high() const;
    size_t bytes() const;

  private:
    std::vector<Elements> parts_;
    bool exact_ = true;
    bool plain_ = true;
};

} // namespace gdr::mpi
