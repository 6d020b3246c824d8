// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps another process's allocation into this process.
#pragma once

#include "cuda/driver.hpp"
#include "ipc/remote_key.hpp"

namespace gdr::ipc {

// Opens the allocation for a GPU of this process and returns its address. The GPU's primary context
// must be current. Takes about 250 us. Throws std::exception with the reason if the memory does not
// open.
CUdeviceptr open(const cuda::Driver& driver, const RemoteKey& key, CUdevice device);

// Closes the allocation in the same context. Waits for running kernels of this process.
void close(const cuda::Driver& driver, const RemoteKey& key, CUdeviceptr address);

} // namespace gdr::ipc
