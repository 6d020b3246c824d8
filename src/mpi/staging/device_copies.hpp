// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of footprints between a GPU's memory and host memory, on the calling thread's stream. Any
// thread.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/library/footprint.hpp"

namespace gdr::mpi {

enum class Direction { from_device, to_device };

// Both as addresses that offset 0 has, or would have, there. Returns when the bytes are there.
// Throws cuda::Error.
void copy_now(const cuda::Driver& driver, CUdevice device, const Footprint& footprint,
              void* on_device, void* on_host, Direction direction);

} // namespace gdr::mpi
