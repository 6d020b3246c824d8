// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which bytes of a buffer its count and datatype are: those that are to be copied, and no others,
// as others may be those of another operation or of a kernel.
#pragma once

#include "mpi/library/library.hpp"
#include "mpi/library/runs.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::mpi {

// Equal elements at equal distances, each of these runs, which are in the order in which MPI packs
// them.
struct Elements {
    Runs runs; // of the first, relative to the buffer's address; not empty
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
    void add(Elements&& elements);

    bool empty() const { return parts_.empty(); }

    // What was added, in that order.
    const SmallVector<Elements>& parts() const { return parts_; }

    // All of them one by one, merged where they follow each other.
    Runs runs() const;

    // Of the bytes as MPI packs them so many, at most all.
    Footprint first(size_t bytes) const;

    // Bytes in one piece that MPI libraries, too, see to be so and hand to their transport as they
    // are: of predefined types, MPI_Type_contiguous and MPI_Type_dup.
    bool plain() const;

    // Whether MPI may be told of as many bytes instead. MPICH (4.0.2) does not receive them as
    // pairs that have a gap.
    bool alike_bytes() const { return !gap_in_pair_; }

    // As of elements. Not if it is empty.
    intptr_t low() const { return low_; }
    intptr_t high() const { return high_; }
    size_t bytes() const { return bytes_; }

  private:
    SmallVector<Elements> parts_;
    intptr_t low_ = INTPTR_MAX, high_ = INTPTR_MIN;
    size_t bytes_ = 0;
    bool plain_ = true;
    bool gap_in_pair_ = false;
};

} // namespace gdr::mpi
