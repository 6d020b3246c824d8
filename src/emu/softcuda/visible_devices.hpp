// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA_VISIBLE_DEVICES: which of the machine's devices a process has, and in which order.
#pragma once

#include <vector>

namespace softcuda {

/// The visible ones of so many devices, by their numbers in the machine; what a list names is
/// visible up to the first entry that names none. Throws CUDA_ERROR_INVALID_DEVICE for a list that
/// names one twice.
std::vector<int> visible_devices(int count);

} // namespace softcuda
