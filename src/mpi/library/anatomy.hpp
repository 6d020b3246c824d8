// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which bytes a datatype is, by how it was made.
#pragma once

#include "mpi/library/library.hpp"
#include "mpi/library/runs.hpp"

namespace gdr::mpi {

struct Anatomy {
    Runs runs; // of one element, no byte in a gap, in the order in which MPI packs them
    intptr_t extent;
    bool plain;       // of predefined types, MPI_Type_contiguous and MPI_Type_dup alone
    bool gap_in_pair; // within a predefined one: MPI_SHORT_INT
};

// Throws std::bad_alloc; std::runtime_error for a type of which MPI tells nothing.
Anatomy anatomy_of(const Library& library, Word type);

} // namespace gdr::mpi
