// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocates and frees CUDA memory in the context that it belongs to.
#include "cuda/allocation.hpp"
#include "cuda/context.hpp"

#include <cassert>

namespace gdr::cuda {

CUresult allocate(const Driver& driver, MemoryKind kind, CUcontext context, size_t length,
                  void** address)
try {
    assert(kind != MemoryKind::host);
    std::optional<CurrentContext> current;
    if (context != nullptr) {
        current.emplace(driver, context);
    }
    CUdeviceptr memory = 0;
    CUresult result = kind == MemoryKind::managed
                          ? driver.cuMemAllocManaged(&memory, length, CU_MEM_ATTACH_GLOBAL)
                          : driver.cuMemAlloc(&memory, length);
    if (result == CUDA_SUCCESS) {
        *address = reinterpret_cast<void*>(memory);
    }
    return result;
} catch (const Error& error) {
    return error.result();
}

CUresult release(const Driver& driver, void* address)
try {
    Pointer memory = classify(driver, address);
    if (memory.kind == MemoryKind::host) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CurrentContext current(driver, memory);
    return driver.cuMemFree(reinterpret_cast<CUdeviceptr>(address));
} catch (const Error& error) {
    return error.result();
}

} // namespace gdr::cuda
