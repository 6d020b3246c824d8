// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Synchronous copies where either side may be in GPU memory. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>
#include <optional>

namespace gdr::openmpi {

// The device memory that an address is in, whose earlier copies are complete (cuda::finish_memops);
// nothing for host memory, of which managed memory is. Throws cuda::Error.
std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address);

// The ranges do not overlap. Returns when the bytes are there. Throws cuda::Error.
void copy(const cuda::Driver& driver, void* to, const void* from, size_t length);

// The same for ranges that may overlap: by way of host memory. Throws std::bad_alloc, too.
void move(const cuda::Driver& driver, void* to, const void* from, size_t length);

} // namespace gdr::openmpi
