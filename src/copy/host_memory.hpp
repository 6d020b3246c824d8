// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Safe copies of plain memory. To CUDA and UCX a freed device pointer looks like any host pointer,
// and the CPU, or the CUDA driver on its behalf, would crash touching it. The kernel reports the
// bad address instead.
#pragma once

#include <cstddef>

namespace gdr::copy {

// Copies by the CPU. False: one of the ranges is not accessible, and a part may have been copied.
// If the kernel does not let this process ask, a bad address is fatal as in memcpy.
bool copy_host(void* destination, const void* source, size_t length);

} // namespace gdr::copy
