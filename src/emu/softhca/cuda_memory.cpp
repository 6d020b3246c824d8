// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Descriptions of a CUDA driver's memory, see cuda_memory.hpp.
#include "emu/softhca/cuda_memory.hpp"

#include "emu/softhca/cuda_driver.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <unistd.h>

namespace softhca {
namespace {

// Their names came with CUDA 11.8.
constexpr auto kMappingSize = static_cast<CUpointer_attribute>(18);
constexpr auto kMappingBase = static_cast<CUpointer_attribute>(19);

// What the driver says of the allocation that an address lies in; of cuMemCreate memory, of the
// mapping.
struct Allocation {
    CudaKind kind = CudaKind::none;
    int device = -1;
    unsigned long long buffer_id = 0;
    CUdeviceptr base = 0;
    size_t length = 0;
    CUcontext context = nullptr; // null for memory of a pool and of cuMemCreate
    CUmemoryPool pool = nullptr;
    bool peer_capable = false;

    bool holds(std::uint64_t address, std::size_t bytes) const
    {
        return address - base < length && bytes <= length - (address - base);
    }
};

template <std::size_t count>
bool query(const CudaDriver& driver, CUdeviceptr address, CUpointer_attribute (&attributes)[count],
           void* (&values)[count])
{
    return driver.cuPointerGetAttributes(count, attributes, values, address) == CUDA_SUCCESS;
}

Allocation find_allocation(const CudaDriver& driver, std::uint64_t address)
{
    Allocation found;
    unsigned type = 0, managed = 0;
    int peer_capable = 0;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
    };
    void* values[] = {&type,         &managed,       &found.device, &found.buffer_id, &found.base,
                      &found.length, &found.context, &found.pool,   &peer_capable};
    if (!query(driver, address, attributes, values) || type == 0) {
        return {};
    }
    if (managed != 0) {
        found.kind = CudaKind::managed;
    } else if (type == CU_MEMORYTYPE_DEVICE) {
        found.kind = CudaKind::device;
    }
    found.peer_capable = peer_capable != 0;
    if (found.kind == CudaKind::device && found.context == nullptr && found.pool == nullptr) {
        // The range is the whole reservation, of which the mapping with its buffer id is a part.
        CUpointer_attribute mapping[] = {kMappingBase, kMappingSize};
        void* mapping_values[] = {&found.base, &found.length};
        if (!query(driver, address, mapping, mapping_values)) {
            return {};
        }
    }
    return found;
}

std::uint64_t buffer_id(const CudaDriver& driver, std::uint64_t address)
{
    unsigned long long id = 0;
    CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void* value[] = {&id};
    return query(driver, address, attribute, value) ? id : 0;
}

// The first and the last address of a range that the driver knows, in its first and last page. A
// dmabuf is of whole pages, of which small allocations take parts, in units of 256 bytes.
bool find_ends(const CudaDriver& driver, std::uint64_t address, std::size_t length,
               std::uint64_t& first, std::uint64_t& last)
{
    constexpr std::uint64_t page = 4096, unit = 256;
    const auto round_down = [](std::uint64_t at) { return at & ~(unit - 1); };
    first = address;
    last = address + length - 1;
    const std::uint64_t first_end = std::min(last, address | (page - 1));
    while (buffer_id(driver, first) == 0) {
        first = round_down(first) + unit;
        if (first > first_end) {
            return false;
        }
    }
    const std::uint64_t last_start = std::max(first, last & ~(page - 1));
    while (buffer_id(driver, last) == 0) {
        last = round_down(last - 1);
        if (last < last_start) {
            return false;
        }
    }
    return true;
}

// Whether all of a range is device memory now, where it lies in mappings side by side; of other
// memory, which may have gaps within a page, its ends.
bool is_known(const CudaDriver& driver, std::uint64_t address, std::size_t length)
{
    for (const std::uint64_t end = address + length; address < end;) {
        const Allocation at = find_allocation(driver, address);
        if (at.kind != CudaKind::device) {
            return false;
        }
        if (at.context != nullptr || at.pool != nullptr) {
            return buffer_id(driver, end - 1) != 0;
        }
        address = at.base + at.length;
    }
    return true;
}

// Names the allocation so that other processes can map it; false if it is not of a kind for that.
bool share(const CudaDriver& driver, const Allocation& allocation, CudaMemory& memory)
{
    const RelaxedCapture relaxed(driver);
    memory.base = allocation.base;
    memory.length = allocation.length;
    if (allocation.context != nullptr) {
        const CurrentContext current(driver, allocation.context);
        CUipcMemHandle handle;
        static_assert(sizeof handle == sizeof memory.ipc_handle);
        if (!current || driver.cuIpcGetMemHandle(&handle, allocation.base) != CUDA_SUCCESS) {
            return false;
        }
        std::memcpy(memory.ipc_handle, &handle, sizeof handle);
        memory.sharing = CudaSharing::ipc;
        return true;
    }
    CUmemGenericAllocationHandle handle;
    if (allocation.pool != nullptr ||
        driver.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(allocation.base)) !=
            CUDA_SUCCESS) {
        return false;
    }
    const bool exported =
        driver.cuMemExportToShareableHandle(
            &memory.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS;
    driver.cuMemRelease(handle);
    memory.sharing = exported ? CudaSharing::handle : CudaSharing::none;
    return exported;
}

} // namespace

CudaKind cuda_kind(std::uint64_t address)
{
    const CudaDriver* driver = cuda_driver();
    return driver == nullptr ? CudaKind::none : find_allocation(*driver, address).kind;
}

bool is_peer_capable(std::uint64_t address, std::size_t length)
{
    const Allocation allocation = find_allocation(*cuda_driver(), address);
    return allocation.peer_capable && allocation.holds(address, length);
}

bool describe_cuda_memory(CudaMemory& memory, Token owner, std::uint64_t address,
                          std::size_t length)
{
    const CudaDriver& driver = *cuda_driver();
    memory = {};
    if (length == 0 || !find_ends(driver, address, length, memory.first, memory.last)) {
        return false;
    }
    const Allocation first = find_allocation(driver, memory.first);
    CUuuid uuid;
    if (first.kind != CudaKind::device ||
        driver.cuDeviceGetUuid(&uuid, first.device) != CUDA_SUCCESS) {
        return false;
    }
    memory.owner = owner;
    memory.device = first.device;
    static_assert(sizeof uuid == sizeof memory.uuid);
    std::memcpy(memory.uuid, &uuid, sizeof uuid);
    if (first.holds(memory.first, memory.last - memory.first + 1)) {
        memory.buffer_id = first.buffer_id;
        share(driver, first, memory);
    }
    return true;
}

void forget_cuda_memory(CudaMemory& memory)
{
    if (memory.sharing == CudaSharing::handle) {
        close(memory.fd);
    }
    memory = {};
}

bool is_intact(const Segment& segment)
{
    const CudaDriver& driver = *cuda_driver();
    const CudaMemory& memory = segment.region->cuda;
    if (memory.buffer_id == 0) {
        return is_known(driver, segment.address, segment.length);
    }
    return buffer_id(driver, memory.first) == memory.buffer_id &&
           buffer_id(driver, memory.last) == memory.buffer_id;
}

bool is_intact(const SegmentList& list)
{
    return std::all_of(list.segments, list.segments + list.count, [](const Segment& segment) {
        return !segment.on_cuda() || is_intact(segment);
    });
}

} // namespace softhca
