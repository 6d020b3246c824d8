// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of footprints between a GPU's memory and host memory, on streams of our own that wait for
// nobody's kernels. What context the caller has current does not matter and is not changed. Any
// thread; each has streams of its own.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/footprint.hpp"

namespace gdr::mpi {

enum class Direction { from_device, to_device };

// Both as addresses that offset 0 has, or would have, there. Returns when the bytes are there.
// Throws cuda::Error.
void copy_now(const cuda::Driver& driver, CUdevice device, const Footprint& footprint,
              void* on_device, void* on_host, Direction direction);

// The context in which those streams are, for other calls of the driver. Throws cuda::Error.
CUcontext context_of(const cuda::Driver& driver, CUdevice device);

} // namespace gdr::mpi
