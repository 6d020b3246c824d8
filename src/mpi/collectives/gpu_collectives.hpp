// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_MPI_COLL=gpu, nccl: large collective calls by the GPUs of all ranks, in the place of the
// MPI library's own algorithm on host memory.
#pragma once

#include "mpi/library/call.hpp"
#include "mpi/library/library.hpp"

#include <optional>

namespace gdr::mpi {

// Makes the call if all its ranks agree to: each has its buffers on one GPU, and kernels, or, with
// NCCL, that. Returns what MPI returns, or MPI_ERR_OTHER where a GPU or NCCL failed; nothing where
// the call is to be made as every other one. Collective for the calls that may be made so, by what
// is the same on all ranks (sizes, operation, type), whether or not there is a driver here, and
// whether or not with_nccl, which ranks may differ in. Any thread.
std::optional<int> call_on_gpus(const Library& library, const Call& call, Word* words,
                                bool with_nccl);

} // namespace gdr::mpi
