// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The devices' primary contexts, which the runtime works in.
#pragma once

#include "emu/softcudart/api.hpp"

namespace softcudart {

/// The primary context of a device, kept alive by the runtime. Throws CUDA_ERROR_INVALID_DEVICE.
CUcontext primary_context(int device);

/// The device of the thread's current context or, where it has none, the one that it will use.
int current_device();

} // namespace softcudart
