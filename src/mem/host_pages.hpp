// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pages lately seen to be ordinary host memory, so that CUDA need not be asked about them again. A
// page cannot become CUDA's without being unmapped first, which UnmapLog tells, provided that it
// was the program's own memory: readable by the CPU, and not known to CUDA.
//
// Each thread knows its own pages: no lock, and nothing shared but the log.
#pragma once

#include <cstdint>

namespace gdr::mem::host_pages {

// Whether the page of this address is known to be ordinary host memory.
bool contains(uintptr_t address);

// Remembers the page of an address that CUDA does not know, if the CPU can read it: what CUDA has
// freed, but keeps reserved, can be given out again without a word. One system call.
void add(uintptr_t address);

} // namespace gdr::mem::host_pages
