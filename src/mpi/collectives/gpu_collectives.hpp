// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_MPI_COLL=gpu, nccl: the GPUs of all ranks make large collective calls, instead of the MPI
// library's own algorithm on host memory.
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/library.hpp"

#include <optional>

namespace gdr::mpi {

// Makes the call if all its ranks agree: each has its buffers on one GPU and can use kernels or
// NCCL. Returns what MPI returns, or MPI_ERR_OTHER if a GPU or NCCL failed; nothing if the call
// must be made like any other. This is collective for calls that qualify by what is the same on all
// ranks (sizes, operation, type), with or without a driver here, and whatever with_nccl is, which
// may differ between ranks. Any thread.
std::optional<int> call_on_gpus(const Library& library, const Call& call, Word* words,
                                bool with_nccl);

} // namespace gdr::mpi
