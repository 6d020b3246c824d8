// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Another process's allocation at an address of this one.
#pragma once

#include "cuda/driver.hpp"
#include "ipc/remote_key.hpp"

namespace gdr::ipc {

// Where a GPU of this process reaches the allocation, in its primary context, which must be
// current. Takes some 250 us. Throws std::exception with the reason when it does not open.
CUdeviceptr open(const cuda::Driver& driver, const RemoteKey& key, CUdevice device);

// The end of that, in the same context. Waits for kernels of this process that are running.
void close(const cuda::Driver& driver, const RemoteKey& key, CUdeviceptr address);

} // namespace gdr::ipc
