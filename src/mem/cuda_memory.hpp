// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether memory belongs to CUDA. The driver is asked only about memory that is not known to be
// ordinary host memory. Until somebody initialises CUDA it is asked only whether that has happened.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::mem {

// Returns the device or managed memory of an address, ready for readers other than its own streams
// (cuda::finish_memops); nothing for host memory. keep_host_pages: the page of ordinary host memory
// may be remembered, because unmapping is seen. pinned: set if it is host memory that CUDA knows.
// Throws cuda::Error. Any thread.
std::optional<cuda::Pointer> find_cuda_memory(const cuda::Driver& driver, const void* address,
                                              bool keep_host_pages, bool* pinned = nullptr);

// The same for an address that is in no known host page.
std::optional<cuda::Pointer> ask_for_cuda_memory(const cuda::Driver& driver, const void* address,
                                                 bool keep_host_pages, bool* pinned = nullptr);

} // namespace gdr::mem
