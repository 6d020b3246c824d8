// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_memory_alloc_kinds of MPI 4.1: which memory can be passed to MPI, as the info of a
// communicator, window, file or session tells it. CUDA's kinds have the names of MPI's side
// document "Memory Allocation Kinds".
#pragma once

#include "mpi/library/call.hpp"
#include "mpi/library/library.hpp"

namespace gdr::mpi {

// Makes one of the calls that get an info, and adds to what the library supports by itself what it
// does with the layer. Returns what MPI returns. Any thread.
int get_info(const Library& library, const Call& call, gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
