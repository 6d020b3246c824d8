// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// All memory the driver knows: what an address belongs to, and where the CPU finds its bytes.
#pragma once

#include "emu/softcuda/device.hpp"

#include <optional>
#include <span>
#include <vector>

namespace softcuda {

enum class Kind {
    device,          // cuMemAlloc
    pool,            // cuMemAllocAsync
    vmm,             // cuMemCreate and cuMemMap
    ipc,             // cuIpcOpenMemHandle
    managed,         // cuMemAllocManaged
    host_alloc,      // cuMemHostAlloc
    host_registered, // cuMemHostRegister
};

constexpr uint32_t kAllDevices = ~uint32_t{0};

/// A live allocation (or mapping).
struct Allocation {
    Kind kind;
    uintptr_t base;
    size_t size;            // as asked for
    int device;             // for host memory that of the context that made it
    CUcontext context;      // nullptr for pool and vmm memory
    uint64_t buffer_id = 0; // set by insert(): unique in the process, never used again
    uintptr_t reserved = 0; // device addresses taken; by others for vmm memory
    size_t reserved_length = 0;
    Extent extent{}; // device memory: where the bytes are, from mapped_at() on
    CUmemoryPool pool = nullptr;
    uint64_t vmm_handle = 0;
    bool handle_imported = false;
    int ipc_token = -1; // file that shows other processes that the allocation lives
    bool rdma_capable = false;
    uint32_t accessible_to = kAllDevices; // the devices whose streams may copy it, a bit each
    bool sync_memops = false;
    unsigned flags = 0; // as given when it was made

    /// Memory the CPU cannot touch at its own address.
    bool on_device() const { return kind <= Kind::ipc; }
    /// Memory that another process, or another handle, has made.
    bool imported() const { return kind == Kind::ipc || handle_imported; }
    /// Memory of a pool or of cuMemCreate is out of other devices' reach, unless cuMemSetAccess
    /// gave them access; what a context owns the driver copies for any of them.
    bool reached_by(int ordinal) const { return (accessible_to >> ordinal & 1) != 0; }
    /// Where the pages begin. A pool maps memory in blocks, so an allocation's mapping begins with
    /// what is not its own: here, with one page.
    uintptr_t mapped_at() const { return kind == Kind::pool ? reserved : base / kPage * kPage; }
    char* alias(uintptr_t address) const { return extent.alias + (address - mapped_at()); }
    bool contains(uintptr_t address, size_t length) const
    {
        return address - base < size && length <= size - (address - base);
    }
};

/// Where in its first page an allocation of that size begins: small ones, like the driver's own
/// suballocations, not at its beginning, so that exports must round them out.
size_t offset_in_page(size_t size);

/// Makes an allocation known and gives it a new buffer id. Throws
/// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when it overlaps another one.
void insert(Allocation allocation);

/// The allocation that `address` lies in.
std::optional<Allocation> find(uintptr_t address);

/// Removes the allocation that begins at `base` and is one of `kinds`; throws
/// CUDA_ERROR_INVALID_VALUE where there is none.
Allocation remove(uintptr_t base, std::span<const Kind> kinds);

/// Changes the allocation that `address` lies in; throws CUDA_ERROR_INVALID_VALUE where there is
/// none. `change` is called under a lock.
void modify(uintptr_t address, void (*change)(Allocation&, uint64_t), uint64_t argument);

/// Takes device memory and an address for it, and makes it known. Throws
/// CUDA_ERROR_OUT_OF_MEMORY.
CUdeviceptr allocate_device_memory(Kind kind, int ordinal, size_t size, CUcontext context,
                                   CUmemoryPool pool = nullptr);

/// Bytes of all live allocations of a pool.
size_t pool_usage(CUmemoryPool pool);

/// Gives back what a removed allocation had taken.
void release(const Allocation& allocation);

/// Lets a device see what an HCA has written to its memory.
void flush_rdma_writes(int ordinal);

/// Removes and releases all that a context owns.
void release_memory(CUcontext context);

/// Of other processes' memory that is open in a context, which is released with the rest.
void forget_openings(CUcontext context);

/// Which memory an argument may name.
enum class Space {
    device, // known to the driver
    any,
};

/// Consecutive bytes as the CPU reaches them.
struct Piece {
    char* start;
    size_t size;
    std::ptrdiff_t view = 0; // see Extent

    /// Where the device reads them.
    const char* seen() const { return start + view; }
};
using Pieces = std::vector<Piece>;

/// The bytes of [address, address + length); throws CUDA_ERROR_INVALID_VALUE if they are not in
/// `space` as a whole, or not in the reach of the device.
Pieces pieces(uintptr_t address, size_t length, Space space, int ordinal);

/// The allocations that [address, address + length) runs through, without a gap; empty if there is
/// a gap. The range may end in the last page of the last allocation.
std::vector<Allocation> find_consecutive(uintptr_t address, size_t length);

inline uintptr_t as_address(const void* pointer)
{
    return reinterpret_cast<uintptr_t>(pointer);
}
inline char* as_pointer(uintptr_t address)
{
    return reinterpret_cast<char*>(address);
}

} // namespace softcuda
