// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which bytes a datatype covers, derived from how it was made.
#pragma once

#include "mpi/interface/library.hpp"
#include "mpi/interface/runs.hpp"

namespace gdr::mpi {

struct Anatomy {
    Runs runs; // of one element, without gaps, in the order in which MPI packs them
    intptr_t extent;
    bool plain;       // only predefined types, MPI_Type_contiguous and MPI_Type_dup
    bool gap_in_pair; // a predefined type has a gap: MPI_SHORT_INT
};

// Throws std::bad_alloc; std::runtime_error if MPI does not tell how the type was made.
Anatomy anatomy_of(const Library& library, Word type);

} // namespace gdr::mpi
