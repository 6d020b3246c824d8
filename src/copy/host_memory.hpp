// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Careful copies of plain memory. To CUDA and to UCX a freed device pointer looks like any host
// pointer; the CPU, or the CUDA driver on its behalf, then dies touching it. The kernel reports it
// instead.
#pragma once

#include <cstddef>

namespace gdr::copy {

// Copies by the CPU. False when either range is not accessible; part of it may have been copied
// then. Where the kernel does not let this process ask, a bad address is fatal as in memcpy.
bool copy_host(void* destination, const void* source, size_t length);

} // namespace gdr::copy
