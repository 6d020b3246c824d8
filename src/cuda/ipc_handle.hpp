// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps memory of another process for the GPU of the current context, from the handle of
// cuIpcGetMemHandle(). Waits for kernels that run in this process.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>

namespace gdr::cuda {

// The address of the allocation behind the handle. A handle does not say how long that is: throws
// std::runtime_error if it is shorter than length, and Error. Each call needs a
// cuIpcCloseMemHandle().
CUdeviceptr open_ipc_handle(const Driver& driver, const CUipcMemHandle& handle, size_t length);

} // namespace gdr::cuda
