// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the CPU can access memory. It cannot if the memory is on a GPU, was freed, or never
// existed. The kernel answers this where touching the memory would be fatal.
#pragma once

#include <cstddef>

namespace gdr::cuda {

// Whether the CPU can read the first and the last byte of a non-empty range. Costs one system call.
// True if the kernel does not let this process ask (a seccomp filter, or CONFIG_CROSS_MEMORY_ATTACH
// is off).
bool readable(const void* address, size_t length);

} // namespace gdr::cuda
