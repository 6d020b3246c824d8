// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocations of the process, counted by the library that asked for them. The program defines
// malloc, operator new and mmap itself, and the dynamic linker gives them to every library.
#pragma once

#include <cstdint>

namespace ucptest {

// Whether the program was built so that allocations can be counted (not under a sanitizer, which
// has the allocator to itself).
bool allocations_can_be_counted();

// Calls from now on; nothing is counted before. Call remember_libraries() first.
void start_counting_allocations();
void stop_counting_allocations();

// malloc, calloc, realloc, free, aligned allocations, new, delete, mmap and munmap made by a
// library, by its index (caller.hpp).
uint64_t allocations(int library);

} // namespace ucptest
