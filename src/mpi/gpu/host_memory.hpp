// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which buffers of MPI calls are host memory, and which may be a GPU's.
#pragma once

#include "mpi/gpu/device_memory.hpp"
#include "mpi/interface/abi.hpp"

namespace gdr::mpi {

// For sure, without a call of the driver; MPI_IN_PLACE is, MPI_BOTTOM is not. Any thread.
int is_host_memory(Word buffer);

// For a buffer with a type: one that is relative to an address without memory may lead anywhere.
// Throws cuda::Error.
bool may_lead_to_gpu(KnownDeviceMemory& memory, const void* buffer);

} // namespace gdr::mpi
