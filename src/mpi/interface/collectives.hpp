// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who makes collective calls on GPU memory.
#pragma once

namespace gdr::mpi {

// The library, staged; or the GPUs, see collectives/gpu_collectives.hpp.
enum class Collectives : unsigned { library, gpu, nccl };

// Their names, in that order, in UCX_GDR_MPI_COLL and the info key gdr_mpi_coll.
inline constexpr const char* kCollectivesNames[] = {"stage", "gpu", "nccl", nullptr};

} // namespace gdr::mpi
