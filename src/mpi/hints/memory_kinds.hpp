// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_memory_alloc_kinds of MPI 4.1: which memory can be passed to MPI. The info of a communicator,
// window, file or session lists it. The names of CUDA's kinds come from MPI's side document "Memory
// Allocation Kinds".
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

// The calls that get an info: adds the kinds that the layer supports to those of the library.
Handler get_info;

} // namespace gdr::mpi
