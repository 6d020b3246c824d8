// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The bytes that a datatype covers, if it is unknown how it was made.
#pragma once

#include "mpi/interface/library.hpp"
#include "mpi/interface/runs.hpp"

namespace gdr::mpi {

// In packing order: lets MPI pack numbered bytes. Needs memory for the whole range between the
// type's first and last byte. Throws std::bad_alloc; std::runtime_error if MPI_Pack adds bytes of
// its own or if the type is too large.
Runs runs_by_packing(const Library& library, Word type);

} // namespace gdr::mpi
