// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Virtual memory management: memory handles, address reservations, and mappings of the ones into
// the others.
#include "emu/softcuda/entry.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace softcuda {

namespace {

constexpr size_t kGranularity = kLargePage;
constexpr auto kFabric = static_cast<CUmemAllocationHandleType>(8); // named by CUDA 12.3

/// What a fabric handle holds: where the file with the memory's name is.
struct FabricHandle {
    int32_t pid;
    int32_t fd;
    uint64_t inode;
    char unused[48];
};
static_assert(sizeof(FabricHandle) == 64);

/// Memory of cuMemCreate, or imported from another process.
struct MemoryHandle {
    CUmemAllocationProp properties;
    int device_of_machine; // its number: an importer may not see it
    Extent extent;
    bool imported;
    unsigned references = 1; // handles given out
    unsigned mappings = 0;
    int fabric_file = -1; // has the memory's name for as long as it lives, once asked for
};

struct Vmm {
    std::mutex mutex;
    std::map<CUmemGenericAllocationHandle, MemoryHandle> handles;
    std::map<uintptr_t, size_t> reservations;
    CUmemGenericAllocationHandle next_handle = 1;
};

Vmm& vmm()
{
    static auto& instance = *new Vmm;
    return instance;
}

/// The rest are called with the lock held.

MemoryHandle& known(CUmemGenericAllocationHandle handle)
{
    auto entry = vmm().handles.find(handle);
    require(entry != vmm().handles.end() && entry->second.references > 0);
    return entry->second;
}

CUmemGenericAllocationHandle add(const CUmemAllocationProp& properties, int device_of_machine,
                                 const Extent& extent, bool imported)
{
    CUmemGenericAllocationHandle handle = vmm().next_handle++;
    vmm().handles.emplace(handle, MemoryHandle{properties, device_of_machine, extent, imported});
    return handle;
}

void drop_if_unused(CUmemGenericAllocationHandle handle)
{
    auto entry = vmm().handles.find(handle);
    const MemoryHandle& memory = entry->second;
    if (memory.references == 0 && memory.mappings == 0) {
        if (memory.fabric_file >= 0) {
            close(memory.fabric_file);
        }
        if (memory.imported) {
            unmap_memory(memory.extent);
        } else {
            device(memory.properties.location.id).give_back(memory.extent);
        }
        vmm().handles.erase(entry);
    }
}

void require_imex_channel()
{
    require(sharing() == Sharing::fabric, CUDA_ERROR_NOT_PERMITTED);
}

/// A file with the name of the memory of a handle.
int name_in_file(const MemoryHandle& memory)
{
    MemoryName name[] = {name_memory(memory.extent, memory.device_of_machine,
                                     memory.properties.allocFlags.gpuDirectRDMACapable)};
    return create_file(FileType::vmm, kPage, name);
}

FabricHandle fabric_handle(MemoryHandle& memory)
{
    if (memory.fabric_file < 0) {
        memory.fabric_file = name_in_file(memory);
    }
    return {getpid(), memory.fabric_file, inode_of(memory.fabric_file), {}};
}

/// The names behind what cuMemImportFromShareableHandle is given.
std::vector<MemoryName> shared_names(void* shareable, CUmemAllocationHandleType type)
{
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return read_file(static_cast<int>(reinterpret_cast<intptr_t>(shareable)), FileType::vmm);
    }
    require_imex_channel();
    FabricHandle fabric;
    std::memcpy(&fabric, shareable, sizeof(fabric));
    MemoryName file{};
    file.pid = fabric.pid;
    file.fd = fabric.fd;
    file.inode = fabric.inode;
    const int fd = open_memory(file);
    require(fd >= 0);
    std::vector<MemoryName> names = read_file(fd, FileType::vmm);
    close(fd);
    return names;
}

void check_properties(const CUmemAllocationProp* properties)
{
    constexpr unsigned kTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | kFabric;
    require(properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
    require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    require((properties->requestedHandleTypes & ~kTypes) == 0, CUDA_ERROR_NOT_SUPPORTED);
    if ((properties->requestedHandleTypes & kFabric) != 0) {
        require_imex_channel();
    }
    device(properties->location.id);
}

/// The mappings that make up [address, address + size) exactly.
std::vector<Allocation> mappings(uintptr_t address, size_t size)
{
    require(size > 0 && address % kGranularity == 0 && size % kGranularity == 0);
    std::vector<Allocation> all = find_consecutive(address, size);
    require(!all.empty() && all.front().base == address &&
            all.back().base + all.back().size == address + size);
    for (const Allocation& mapping : all) {
        require(mapping.kind == Kind::vmm);
    }
    return all;
}

/// The reservation that holds [address, address + size).
std::pair<uintptr_t, size_t> reservation(uintptr_t address, size_t size)
{
    auto next = vmm().reservations.upper_bound(address);
    require(next != vmm().reservations.begin());
    auto [start, length] = *std::prev(next);
    require(address + size <= start + length);
    return {start, length};
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags)
{
    return api(__func__, Needs::init, [&] {
        require(granularity != nullptr);
        check_properties(properties);
        *granularity = kGranularity;
    });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* properties, unsigned long long flags)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr && size > 0 && size % kGranularity == 0 && flags == 0);
        check_properties(properties);
        Device& on = device(properties->location.id);
        Extent extent = on.take(size);
        std::lock_guard guard(vmm().mutex);
        *handle = add(*properties, on.number(), extent, false);
    });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(vmm().mutex);
        --known(handle).references;
        drop_if_unused(handle);
    });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle)
{
    return api(__func__, Needs::init, [&] {
        require(properties != nullptr);
        std::lock_guard guard(vmm().mutex);
        *properties = known(handle).properties;
    });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr);
        std::lock_guard guard(vmm().mutex);
        auto mapping = find(as_address(address));
        require(mapping && mapping->kind == Kind::vmm);
        ++vmm().handles.at(mapping->vmm_handle).references;
        *handle = mapping->vmm_handle;
    });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags)
{
    return api(__func__, Needs::init, [&] {
        require(address != nullptr && size > 0 && size % kGranularity == 0 && flags == 0);
        require((alignment & (alignment - 1)) == 0);
        // Addresses belong to no device; those of the first one serve.
        uintptr_t range =
            device(0).addresses().take(size, std::max(alignment, kGranularity), wanted);
        require(range != 0, CUDA_ERROR_OUT_OF_MEMORY);
        std::lock_guard guard(vmm().mutex);
        vmm().reservations.emplace(range, size);
        *address = range;
    });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(vmm().mutex);
        auto reservation = vmm().reservations.find(address);
        require(reservation != vmm().reservations.end() && reservation->second == size);
        for (uintptr_t at = address; at < address + size; at += kGranularity) {
            require(!find(at).has_value());
        }
        vmm().reservations.erase(reservation);
        device(0).addresses().give_back(address, size);
    });
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return api(__func__, Needs::init, [&] {
        require(size > 0 && address % kGranularity == 0 && size % kGranularity == 0);
        require(offset == 0 && flags == 0);
        std::lock_guard guard(vmm().mutex);
        MemoryHandle& memory = known(handle);
        require(size <= memory.extent.length);
        auto [reserved, reserved_length] = reservation(address, size);
        for (uintptr_t at = address; at < address + size; at += kGranularity) {
            require(!find(at).has_value());
        }
        // Pointers to memory of a device that is not seen are of device 0.
        const CUdevice ordinal = std::max(memory.properties.location.id, 0);
        Allocation mapping{Kind::vmm, address, size, ordinal, nullptr};
        mapping.reserved = reserved;
        mapping.reserved_length = reserved_length;
        mapping.extent = memory.extent;
        mapping.extent.length = size;
        mapping.vmm_handle = handle;
        mapping.handle_imported = memory.imported;
        mapping.rdma_capable = memory.properties.allocFlags.gpuDirectRDMACapable != 0;
        mapping.flags = memory.properties.requestedHandleTypes;
        mapping.accessible_to = 0;
        insert(mapping);
        ++memory.mappings;
    });
}

SOFTCUDA_ENTRY(cuMemUnmap)
CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(vmm().mutex);
        for (const Allocation& mapping : mappings(address, size)) {
            Kind kinds[] = {Kind::vmm};
            remove(mapping.base, kinds);
            --vmm().handles.at(mapping.vmm_handle).mappings;
            drop_if_unused(mapping.vmm_handle);
        }
    });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* descriptions,
                        size_t count)
{
    return api(__func__, Needs::init, [&] {
        require(descriptions != nullptr && count > 0);
        uint32_t granted = 0, withdrawn = 0;
        for (size_t i = 0; i < count; ++i) {
            require(descriptions[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE,
                    CUDA_ERROR_NOT_SUPPORTED);
            const uint32_t bit = uint32_t{1} << device(descriptions[i].location.id).ordinal();
            (descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? granted : withdrawn) |= bit;
        }
        std::lock_guard guard(vmm().mutex);
        for (const Allocation& mapping : mappings(address, size)) {
            const int owner = vmm().handles.at(mapping.vmm_handle).device_of_machine;
            for (size_t i = 0; i < count; ++i) {
                require(peers(device(descriptions[i].location.id).number(), owner),
                        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
            }
            const uint32_t now = (mapping.accessible_to & ~withdrawn) | granted;
            modify(
                mapping.base,
                [](Allocation& a, uint64_t devices) { a.accessible_to = uint32_t(devices); }, now);
        }
    });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address)
{
    return api(__func__, Needs::init, [&] {
        require(flags != nullptr && location != nullptr);
        auto allocation = find(address);
        require(allocation.has_value());
        *flags = allocation->reached_by(device(location->id).ordinal())
                     ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    return api(__func__, Needs::init, [&] {
        require(shareable != nullptr && flags == 0);
        require(sharing() >= Sharing::all, CUDA_ERROR_NOT_SUPPORTED);
        std::lock_guard guard(vmm().mutex);
        MemoryHandle& memory = known(handle);
        require((memory.properties.requestedHandleTypes & type) != 0);
        if (type == kFabric) {
            require_imex_channel();
            const FabricHandle fabric = fabric_handle(memory);
            std::memcpy(shareable, &fabric, sizeof(fabric));
        } else {
            const int fd = name_in_file(memory);
            std::memcpy(shareable, &fd, sizeof(fd));
        }
    });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr &&
                (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == kFabric));
        std::vector<MemoryName> names = shared_names(shareable, type);
        require(names.size() == 1);
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        // As with the real driver, also of a device that is not seen.
        const Device* const seen = device_of_machine(names[0].device);
        properties.location.id = seen != nullptr ? seen->ordinal() : CU_DEVICE_INVALID;
        properties.requestedHandleTypes = type;
        properties.allocFlags.gpuDirectRDMACapable = names[0].rdma_capable != 0;
        Extent extent = map_memory(names[0]);
        std::lock_guard guard(vmm().mutex);
        *handle = add(properties, names[0].device, extent, true);
    });
}
