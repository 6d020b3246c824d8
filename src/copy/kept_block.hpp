// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small block of device memory that is kept when it is freed, for the next who asks for as much.
// UCP 1.23 allocates a byte in each of its contexts, to learn which domain has device memory, and
// frees it, as it connects; but cuMemFree waits for all streams of the GPU, and so for ever where
// one of them waits for what this thread is to do next.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>

namespace gdr::copy::kept_block {

inline constexpr size_t kSize = 512; // of the block, and of what is allocated for less

// The block, for who asks for device memory in a context (nullptr: the current one); nullptr where
// none is kept that lives there. Any thread.
void* take(const cuda::Driver& driver, CUcontext context);

// Keeps a block that take() returned or that was allocated with kSize, for as long as the process
// and its CUDA context live. False: it is to be freed, as there is one already. Any thread.
bool keep(const cuda::Driver& driver, void* address);

} // namespace gdr::copy::kept_block
