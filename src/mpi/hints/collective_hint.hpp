// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The info key gdr_mpi_coll of a communicator: with "gpu" the GPUs make its large collective calls,
// with "nccl" NCCL does, with "stage" the MPI library, whatever UCX_GDR_MPI_COLL is. The key is the
// layer's own, and all ranks have to give it alike. MPI's mpi_assert_memory_alloc_kinds only tells
// of the calling process, and a rank that asserts nothing would not take part in what the others
// then do.
#pragma once

#include "mpi/interface/collectives.hpp"
#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

// MPI_Comm_set_info, MPI_Comm_dup_with_info and MPI_Comm_idup_with_info: keeps the hint with the
// communicator. MPI_Comm_dup and MPI_Comm_idup copy it.
Handler set_info;

// UCX_GDR_MPI_COLL, for communicators without a hint. To be set before any call.
void set_collectives(Collectives chosen);
Collectives chosen_collectives();

// Whether GPUs or NCCL are asked for, by UCX_GDR_MPI_COLL or for any communicator of this process.
bool gpus_may_make_collectives();

// Who makes the communicator's calls.
Collectives collectives_of(const Library& library, Word comm);

} // namespace gdr::mpi
