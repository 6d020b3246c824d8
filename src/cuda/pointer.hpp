// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What memory an address belongs to. Any thread; no current context is needed.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::cuda {

enum class MemoryKind {
    host,    // all that is neither of the others, also addresses of nothing at all
    device,  // of a GPU: cuMemAlloc, cuMemAllocAsync, cuMemCreate, another process' by IPC
    managed, // cuMemAllocManaged
};

struct Pointer {
    MemoryKind kind = MemoryKind::host;
    bool pinned = false;    // host memory that CUDA knows: cuMemHostAlloc, cuMemHostRegister
    CUdevice device = -1;   // -1 for host memory that is not pinned, as the rest is 0 for it
    uint64_t buffer_id = 0; // of the allocation; not used again in the process once that is freed
    uintptr_t base = 0;     // of the allocation; of cuMemCreate memory, of the mapping
    size_t length = 0;      // of the same, in bytes
    bool mapped = false;    // memory of cuMemCreate: see mapping.hpp
    uintptr_t reserved = 0; // mapped: the addresses that were reserved, which may have holes
    size_t reserved_length = 0;
    CUcontext context = nullptr; // that owns it; nullptr for memory of a pool and of cuMemCreate
    bool sync_memops = false;    // see finish_memops()

    uintptr_t end() const { return base + length; }
};

// Up to where an allocation that ends there has its memory to itself: CUDA begins each at a
// multiple of 256 bytes. UCP 1.16 and 1.17 ask for whole blocks of 16, and so for more than was
// allocated.
constexpr uintptr_t own_end(uintptr_t end)
{
    return (end + 255) & ~uintptr_t{255};
}

// One call of the driver, 40 to 100 ns; two for memory of cuMemCreate. An address that is unknown
// is no failure, but host memory, as all is until CUDA is initialised. Where the query fails as
// such (a driver shutting down, as the process ends) what the CPU can read is host memory; throws
// Error otherwise.
Pointer classify(const Driver& driver, const void* address);

// Where the mapping of device memory that holds an address begins: for memory of a pool, before the
// allocation. Throws Error.
uintptr_t mapping_base(const Driver& driver, const void* address);

// Whether nvidia-peermem takes device memory: that of cuMemAlloc, and of cuMemCreate where the
// application asked for it (gpuDirectRDMACapable), not that of pools. One call of the driver.
// Throws Error.
bool rdma_capable(const Driver& driver, const void* address);

// A synchronous copy from pageable memory returns before its bytes are in device memory: CUDA's own
// streams wait for them, but neither our streams nor an HCA do (on an H200, 298 of 300 copies of 1
// MiB were read too early). To be called before memory is read by those: makes such copies, the
// last one included, wait for their bytes, by CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. One call of the
// driver for each allocation, none once it is set. Only for memory that a context owns; for that of
// a pool the attribute has no effect, that of cuMemCreate has none: there the application has to
// synchronise itself. While a capture forbids it even in relaxed mode it is left to the next time.
inline void finish_memops(const Driver& driver, const Pointer& memory)
{
    if (memory.kind != MemoryKind::device || memory.context == nullptr || memory.sync_memops)
        return;
    unsigned on = 1;
    CUresult result =
        driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory.base);
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        check(result, "cuPointerSetAttribute(SYNC_MEMOPS)");
}

// Pointer::buffer_id alone: 0 for memory that CUDA does not know, and where the query fails. The
// cheapest query there is: the plural form of one attribute, as the singular one takes its error
// path, seven times as long, on ordinary memory.
inline uint64_t buffer_id(const Driver& driver, const void* address)
{
    unsigned long long id = 0;
    void* value = &id;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    CUresult result = driver.cuPointerGetAttributes(1, &attribute, &value,
                                                    reinterpret_cast<CUdeviceptr>(address));
    return result == CUDA_SUCCESS ? id : 0;
}

// Whether it is host memory that CUDA knows, as Pointer::pinned tells. One call of the driver;
// false where that fails.
inline bool is_pinned(const Driver& driver, const void* address)
{
    unsigned type = 0, managed = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* values[] = {&type, &managed};
    return driver.cuPointerGetAttributes(2, attributes, values,
                                         reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST && managed == 0;
}

} // namespace gdr::cuda
