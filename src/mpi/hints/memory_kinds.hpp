// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_memory_alloc_kinds of MPI 4.1: which memory can be passed to MPI. The info of a communicator,
// window, file or session lists it. The names of CUDA's kinds come from MPI's side document "Memory
// Allocation Kinds".
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/library.hpp"

namespace gdr::mpi {

// Makes one of the calls that get an info, and adds the kinds that the layer supports to those of
// the library. Returns what MPI returns. Any thread.
int get_info(const Library& library, const Call& call, gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
