// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small block of device memory that is kept when it is freed, for the next small allocation. UCP
// 1.23 allocates a byte in each of its contexts, to learn which domain has device memory, and frees
// it when it connects. But cuMemFree waits for all streams of the GPU, and deadlocks if one of them
// waits for this thread.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>

namespace gdr::copy::kept_block {

inline constexpr size_t kSize = 512; // of the block; smaller allocations are rounded up to it

// Takes the block for an allocation in a context (nullptr: the current one); nullptr if no block of
// that context is kept. Any thread.
void* take(const cuda::Driver& driver, CUcontext context);

// Keeps a block that take() returned or that was allocated with kSize, as long as the process and
// its CUDA context live. False: one is kept already, so the caller must free this one. Any thread.
bool keep(const cuda::Driver& driver, void* address);

} // namespace gdr::copy::kept_block
