// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::mpi {

// The memory of a GPU that an address belongs to; nothing for host memory, and for managed memory,
// which the CPU can touch. Throws cuda::Error.
std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address);

} // namespace gdr::mpi
