// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the CPU reaches memory, which it does not where the memory is a GPU's, has been freed, or
// never was. The kernel tells, where touching it would be fatal.
#pragma once

#include <cstddef>

namespace gdr::cuda {

// Whether the CPU can read the first and the last byte of a non-empty range. One system call. True
// where the kernel does not let this process ask (a seccomp filter, CONFIG_CROSS_MEMORY_ATTACH
// off).
bool readable(const void* address, size_t length);

} // namespace gdr::cuda
