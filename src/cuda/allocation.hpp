// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocating and freeing CUDA memory, whatever the calling thread has current. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>

namespace gdr::cuda {

// Allocates length bytes of device or managed memory (kind) in a context: it is freed with that
// context if not before. context nullptr: the one that is current, CUDA_ERROR_INVALID_CONTEXT if
// there is none. Returns CUDA's result; address is set on success only.
CUresult allocate(const Driver& driver, MemoryKind kind, CUcontext context, size_t length,
                  void** address);

// Frees device or managed memory, also that of cuMemAllocAsync. address is the beginning of the
// allocation; CUDA_ERROR_INVALID_VALUE if it is not. Waits, as cuMemFree does, for work under way
// on the memory.
CUresult release(const Driver& driver, void* address);

} // namespace gdr::cuda
