// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Classifies an address with one query of several attributes.
#include "cuda/pointer.hpp"
#include "cuda/readable.hpp"

#include <iterator>

namespace gdr::cuda {

namespace {

// For memory of cuMemCreate the range attributes return the whole reservation, which may have
// holes. The mapping that contains the address is a part of it and has its own buffer id.
void find_mapping(const Driver& driver, const void* address, CUdeviceptr& base, size_t& length)
{
    // CUDA 11.8 named these attributes.
    constexpr auto kMappingSize = static_cast<CUpointer_attribute>(18);
    constexpr auto kMappingBase = static_cast<CUpointer_attribute>(19);
    CUpointer_attribute attributes[] = {kMappingBase, kMappingSize};
    void* values[] = {&base, &length};
    check(driver.cuPointerGetAttributes(std::size(attributes), attributes, values,
                                        reinterpret_cast<CUdeviceptr>(address)),
          "cuPointerGetAttributes(MAPPING_BASE_ADDR, MAPPING_SIZE)");
}

} // namespace

uintptr_t mapping_base(const Driver& driver, const void* address)
{
    CUdeviceptr base = 0;
    size_t length = 0;
    find_mapping(driver, address, base, length);
    return base;
}

bool rdma_capable(const Driver& driver, const void* address)
{
    int capable = 0;
    void* value = &capable;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
    check(driver.cuPointerGetAttributes(1, &attribute, &value,
                                        reinterpret_cast<CUdeviceptr>(address)),
          "cuPointerGetAttributes(IS_GPU_DIRECT_RDMA_CAPABLE)");
    return capable != 0;
}

Pointer classify(const Driver& driver, const void* address)
{
    unsigned type = 0; // stays 0 for memory that CUDA does not know
    unsigned managed = 0;
    int device = -1;
    unsigned long long id = 0;
    CUdeviceptr base = 0;
    size_t length = 0;
    CUcontext context = nullptr;
    CUmemoryPool pool = nullptr;
    int sync_memops = 0;

    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    };
    void* values[] = {&type, &managed, &device, &id, &base, &length, &context, &pool, &sync_memops};
    static_assert(std::size(attributes) == std::size(values));
    Pointer pointer;
    CUresult result = driver.cuPointerGetAttributes(std::size(attributes), attributes, values,
                                                    reinterpret_cast<CUdeviceptr>(address));
    if (result == CUDA_ERROR_NOT_INITIALIZED && is_untouched()) {
        return pointer;
    }
    if (result != CUDA_SUCCESS && !readable(address, 1)) {
        throw Error(result, "cuPointerGetAttributes");
    }
    if (result != CUDA_SUCCESS || type == 0) {
        return pointer;
    }
    if (managed != 0) {
        pointer.kind = MemoryKind::managed;
    } else if (type == CU_MEMORYTYPE_HOST) {
        pointer.pinned = true;
    } else {
        pointer.kind = MemoryKind::device;
    }
    if (pointer.kind == MemoryKind::device && context == nullptr && pool == nullptr) {
        pointer.mapped = true;
        pointer.reserved = base;
        pointer.reserved_length = length;
        find_mapping(driver, address, base, length);
    }
    pointer.device = device;
    pointer.buffer_id = id;
    pointer.base = base;
    pointer.length = length;
    pointer.context = context;
    pointer.sync_memops = sync_memops != 0;
    return pointer;
}

} // namespace gdr::cuda
