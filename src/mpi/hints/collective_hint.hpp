// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The info key gdr_mpi_coll of a communicator: with "gpu" the GPUs make its large collective calls,
// with "nccl" NCCL does, with "stage" the MPI library, whatever UCX_GDR_MPI_COLL is. The key is the
// layer's own, and all ranks have to give it alike. MPI's mpi_assert_memory_alloc_kinds only tells
// of the calling process, and a rank that asserts nothing would not take part in what the others
// then do.
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/collectives.hpp"
#include "mpi/interface/library.hpp"

namespace gdr::mpi {

// Makes MPI_Comm_set_info, MPI_Comm_dup_with_info or MPI_Comm_idup_with_info, and keeps the hint
// with the communicator. MPI_Comm_dup and MPI_Comm_idup copy it. Returns what MPI returns. Any
// thread.
int set_info(const Library& library, const Call& call, gdr_mpi_function* function, Word* words);

// Whether any communicator of this process has asked for GPUs or NCCL.
bool any_collective_hints();

// Who makes the communicator's calls: its hint says so, or else `otherwise`.
Collectives hinted_collectives(const Library& library, Word comm, Collectives otherwise);

} // namespace gdr::mpi
