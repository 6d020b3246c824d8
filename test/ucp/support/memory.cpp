// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of a kind.
#include "memory.hpp"

#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "cuda.hpp"
#include "failure.hpp"

namespace ucptest {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kAroundSlice = 64 << 20;

CUdeviceptr device_address(const void* address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

} // namespace

const char* name(MemoryKind kind)
{
    switch (kind) {
    case MemoryKind::kHost:
        return "host";
    case MemoryKind::kReadOnly:
        return "readonly";
    case MemoryKind::kCuda:
        return "cuda";
    case MemoryKind::kSlice:
        return "slice";
    case MemoryKind::kPool:
        return "pool";
    case MemoryKind::kVmm:
        return "vmm";
    case MemoryKind::kFabric:
        return "fabric";
    case MemoryKind::kImported:
        return "imported";
    case MemoryKind::kSegments:
        return "segments";
    case MemoryKind::kManaged:
        return "managed";
    }
    return "unknown";
}

MemoryKind memory_kind(const std::string& text)
{
    for (MemoryKind kind :
         {MemoryKind::kHost, MemoryKind::kReadOnly, MemoryKind::kCuda, MemoryKind::kSlice,
          MemoryKind::kPool, MemoryKind::kVmm, MemoryKind::kFabric, MemoryKind::kImported,
          MemoryKind::kSegments, MemoryKind::kManaged}) {
        if (text == name(kind)) {
            return kind;
        }
    }
    throw Failure("unknown memory kind " + text);
}

ucs_memory_type_t ucs_type(MemoryKind kind)
{
    switch (kind) {
    case MemoryKind::kHost:
    case MemoryKind::kReadOnly:
        return UCS_MEMORY_TYPE_HOST;
    case MemoryKind::kCuda:
    case MemoryKind::kSlice:
    case MemoryKind::kPool:
    case MemoryKind::kVmm:
    case MemoryKind::kFabric:
    case MemoryKind::kImported:
    case MemoryKind::kSegments:
        return UCS_MEMORY_TYPE_CUDA;
    case MemoryKind::kManaged:
        return UCS_MEMORY_TYPE_CUDA_MANAGED;
    }
    return UCS_MEMORY_TYPE_UNKNOWN;
}

Memory::Memory(MemoryKind kind, size_t size) : kind_(kind), size_(size)
{
    switch (kind) {
    case MemoryKind::kHost:
        if (posix_memalign(&address_, kAlignment, size) != 0) {
            throw Failure(format("no memory for %zu bytes", size));
        }
        break;
    case MemoryKind::kReadOnly:
        address_ = mmap(nullptr, size + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (address_ == MAP_FAILED) {
            throw Failure(format("no memory for %zu bytes", size));
        }
        break;
    case MemoryKind::kCuda:
        address_ = reinterpret_cast<void*>(cuda::allocate(size));
        break;
    case MemoryKind::kSlice:
        address_ = reinterpret_cast<void*>(cuda::allocate(kAroundSlice + size) + kAroundSlice / 2);
        break;
    case MemoryKind::kPool:
        address_ = reinterpret_cast<void*>(cuda::allocate_from_pool(size));
        break;
    case MemoryKind::kVmm:
        address_ = reinterpret_cast<void*>(cuda::map(size));
        break;
    case MemoryKind::kFabric:
        address_ = reinterpret_cast<void*>(cuda::map_fabric(size));
        break;
    case MemoryKind::kImported:
        address_ = reinterpret_cast<void*>(cuda::map_imported(size));
        break;
    case MemoryKind::kSegments:
        address_ = reinterpret_cast<void*>(cuda::map_side_by_side(size));
        break;
    case MemoryKind::kManaged:
        address_ = reinterpret_cast<void*>(cuda::allocate_managed(size));
        break;
    }
}

Memory::~Memory()
{
    if (kind_ == MemoryKind::kHost) {
        std::free(address_);
    } else if (kind_ == MemoryKind::kReadOnly) {
        munmap(address_, size_ + 1);
    } else if (kind_ == MemoryKind::kVmm || kind_ == MemoryKind::kFabric) {
        cuda::unmap(device_address(address_), size_);
    } else if (kind_ == MemoryKind::kImported) {
        cuda::unmap_imported(device_address(address_), size_);
    } else if (kind_ == MemoryKind::kSlice) {
        cuda::release(device_address(address_) - kAroundSlice / 2);
    } else if (kind_ == MemoryKind::kPool) {
        cuda::release_to_pool(device_address(address_));
    } else if (kind_ == MemoryKind::kSegments) {
        cuda::unmap_side_by_side(device_address(address_), size_);
    } else {
        cuda::release(device_address(address_));
    }
}

void Memory::store(size_t offset, const void* source, size_t size)
{
    if (kind_ == MemoryKind::kReadOnly) {
        mprotect(address_, size_ + 1, PROT_READ | PROT_WRITE);
    }
    if (on_host()) {
        std::memcpy(address(offset), source, size);
    } else {
        cuda::copy_in(device_address(address(offset)), source, size);
    }
    if (kind_ == MemoryKind::kReadOnly) {
        mprotect(address_, size_ + 1, PROT_READ);
    }
}

void Memory::load(void* target, size_t offset, size_t size) const
{
    if (on_host()) {
        std::memcpy(target, address(offset), size);
    } else {
        cuda::copy_out(target, device_address(address(offset)), size);
    }
}

} // namespace ucptest
