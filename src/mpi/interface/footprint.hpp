// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The bytes of a buffer that its count and datatype cover. Only those may be copied: others may
// belong to another operation or to a kernel.
#pragma once

#include "mpi/interface/library.hpp"
#include "mpi/interface/runs.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::mpi {

// Equal elements at equal distances. Each has these runs, in the order in which MPI packs them.
struct Elements {
    Runs runs; // of the first element, relative to the buffer's address; not empty
    int64_t count;
    intptr_t extent; // bytes from one to the next

    bool operator==(const Elements&) const = default;

    uint64_t element_bytes() const;
    bool in_one_piece() const;

    // The offset of the first byte, and that after the last.
    intptr_t low() const;
    intptr_t high() const;
};

class Footprint {
  public:
    // Adds count elements of a type; the first one has this displacement in bytes.
    void add(const Library& library, Word type, int64_t count, intptr_t displacement);

    void add_bytes(intptr_t first, int64_t length);
    void add(const Footprint& other);
    void add(Elements&& elements);

    bool empty() const { return parts_.empty(); }

    // What was added, in that order.
    const SmallVector<Elements>& parts() const { return parts_; }

    // All of them one by one; adjacent ones are merged.
    Runs runs() const;

    // The part of the first `bytes` packed bytes, at most all.
    Footprint first(size_t bytes) const;

    // Contiguous bytes that MPI libraries recognise as such and hand to their transport unchanged:
    // only predefined types, MPI_Type_contiguous and MPI_Type_dup.
    bool plain() const;

    // Whether MPI may get the same number of bytes instead. MPICH (4.0.2) does not receive bytes as
    // pairs with a gap.
    bool alike_bytes() const { return !gap_in_pair_; }

    // As in Elements. The footprint must not be empty.
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
