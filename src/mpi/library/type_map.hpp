// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which bytes a datatype is, where it is not known how it was made.
#pragma once

#include "mpi/library/library.hpp"
#include "mpi/library/runs.hpp"

namespace gdr::mpi {

// In the order of packing: MPI packs bytes that are numbered. Takes memory for all between the
// type's first byte and its last. Throws std::bad_alloc; std::runtime_error if MPI_Pack adds
// something of its own, or does not take so much.
Runs runs_by_packing(const Library& library, Word type);

} // namespace gdr::mpi
