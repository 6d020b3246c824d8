// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether memory is CUDA's. The driver is asked only about what is not known to be ordinary host
// memory, and no more than whether it is in use as long as nobody has initialised CUDA.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::mem {

// The device or managed memory that an address belongs to, ready to be read by others than its own
// streams (cuda::finish_memops); nothing for host memory. keep_host_pages: ordinary host memory may
// be remembered, since unmapping is seen. pinned: set where it is host memory that CUDA knows.
// Throws cuda::Error. Any thread.
std::optional<cuda::Pointer> find_cuda_memory(const cuda::Driver& driver, const void* address,
                                              bool keep_host_pages, bool* pinned = nullptr);

// The same for an address that is in none of the known host pages.
std::optional<cuda::Pointer> ask_for_cuda_memory(const cuda::Driver& driver, const void* address,
                                                 bool keep_host_pages, bool* pinned = nullptr);

} // namespace gdr::mem
