// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocates and frees CUDA memory, whatever context the calling thread has current. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>

namespace gdr::cuda {

// Allocates length bytes of device or managed memory (kind) in a context; destroying the context
// frees it too. context nullptr: the current context, or CUDA_ERROR_INVALID_CONTEXT if there is
// none. Returns CUDA's result; address is set only on success.
CUresult allocate(const Driver& driver, MemoryKind kind, CUcontext context, size_t length,
                  void** address);

// Frees device or managed memory, including memory of cuMemAllocAsync. address is the beginning of
// the allocation; CUDA_ERROR_INVALID_VALUE if it is not. Like cuMemFree, it waits for work under
// way on the memory.
CUresult release(const Driver& driver, void* address);

} // namespace gdr::cuda
