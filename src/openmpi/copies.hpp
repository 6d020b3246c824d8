// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Synchronous copies in which either side may be GPU memory. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>
#include <optional>

namespace gdr::openmpi {

// The device memory that holds an address; its earlier copies are complete (cuda::finish_memops).
// Nothing for host memory, which includes managed memory. Throws cuda::Error.
std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address);

// The ranges must not overlap. Returns when the bytes are there. Throws cuda::Error.
void copy(const cuda::Driver& driver, void* to, const void* from, size_t length);

// The same for ranges that may overlap; these go through host memory. Also throws std::bad_alloc.
void move(const cuda::Driver& driver, void* to, const void* from, size_t length);

} // namespace gdr::openmpi
