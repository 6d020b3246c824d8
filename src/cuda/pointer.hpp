// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds out what memory an address belongs to. Any thread; needs no current context.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::cuda {

enum class MemoryKind {
    host,    // everything else, even addresses of nothing at all
    device,  // on a GPU: cuMemAlloc, cuMemAllocAsync, cuMemCreate, or opened by IPC
    managed, // cuMemAllocManaged
};

struct Pointer {
    MemoryKind kind = MemoryKind::host;
    bool pinned = false;    // host memory that CUDA knows: cuMemHostAlloc, cuMemHostRegister
    CUdevice device = -1;   // -1 for unpinned host memory; the other members are 0 for it
    uint64_t buffer_id = 0; // of the allocation; never reused in the process
    uintptr_t base = 0;     // of the allocation, or of the mapping of cuMemCreate memory
    size_t length = 0;      // of the same, in bytes
    bool mapped = false;    // memory of cuMemCreate: see mapping.hpp
    uintptr_t reserved = 0; // mapped: the reserved address range, which may have holes
    size_t reserved_length = 0;
    CUcontext context = nullptr; // the owner; nullptr for memory of a pool or of cuMemCreate
    bool sync_memops = false;    // see finish_memops()

    uintptr_t end() const { return base + length; }
};

// The end of the memory that belongs to an allocation alone: CUDA begins each allocation at a
// multiple of 256 bytes. UCP 1.16 and 1.17 round requests up to blocks of 16 bytes and thus exceed
// the allocation.
constexpr uintptr_t own_end(uintptr_t end)
{
    return (end + 255) & ~uintptr_t{255};
}

// Costs one driver call, 40 to 100 ns, or two for memory of cuMemCreate. An unknown address counts
// as host memory, as all memory does until CUDA is initialised. If the query itself fails (the
// driver shuts down while the process exits), memory that the CPU can read is host memory; throws
// Error otherwise.
Pointer classify(const Driver& driver, const void* address);

// The beginning of the mapping that holds an address of device memory. For pool memory it lies
// before the allocation. Throws Error.
uintptr_t mapping_base(const Driver& driver, const void* address);

// Whether nvidia-peermem accepts device memory: it accepts memory of cuMemAlloc, and of cuMemCreate
// if the application asked for it (gpuDirectRDMACapable), but not of pools. Costs one driver call.
// Throws Error.
bool rdma_capable(const Driver& driver, const void* address);

// A synchronous copy from pageable memory returns before its bytes are in device memory. CUDA's own
// streams wait for them, but neither our streams nor an HCA do (on an H200, 298 of 300 copies of 1
// MiB were read too early). Call this before those read memory: by CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
// it makes such copies, including the last one, wait for their bytes. Costs one driver call per
// allocation, none once it is set. Works only for memory that a context owns: the attribute has no
// effect on pool memory, and memory of cuMemCreate does not have it, so there the application must
// synchronise itself. If a capture forbids the call even in relaxed mode, it is left to the next
// time.
inline void finish_memops(const Driver& driver, const Pointer& memory)
{
    if (memory.kind != MemoryKind::device || memory.context == nullptr || memory.sync_memops) {
        return;
    }
    unsigned on = 1;
    CUresult result =
        driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory.base);
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        check(result, "cuPointerSetAttribute(SYNC_MEMOPS)");
    }
}

// Pointer::buffer_id alone: 0 for memory that CUDA does not know, and if the query fails. This is
// the cheapest query: for ordinary memory the singular form takes its error path, which is seven
// times slower than the plural form with one attribute.
inline uint64_t buffer_id(const Driver& driver, const void* address)
{
    unsigned long long id = 0;
    void* value = &id;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    CUresult result = driver.cuPointerGetAttributes(1, &attribute, &value,
                                                    reinterpret_cast<CUdeviceptr>(address));
    return result == CUDA_SUCCESS ? id : 0;
}

// Whether it is host memory that CUDA knows, like Pointer::pinned. Costs one driver call; false if
// it fails.
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
