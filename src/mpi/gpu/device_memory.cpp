// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/device_memory.hpp"

#include "mem/cuda_memory.hpp"
#include "mem/unmap_watch.hpp"

namespace gdr::mpi {

std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address)
{
    static const bool keep_host_pages = mem::unmaps_are_seen();
    auto memory = mem::find_cuda_memory(driver, address, keep_host_pages);
    if (memory && memory->kind != cuda::MemoryKind::device)
        memory.reset();
    return memory;
}

const cuda::Pointer* KnownDeviceMemory::find(const void* address)
{
    if (reinterpret_cast<uintptr_t>(address) - latest_.base >= latest_.length) {
        const auto found = find_device_memory(driver_, address);
        if (!found)
            return nullptr;
        latest_ = *found;
    }
    return &latest_;
}

} // namespace gdr::mpi
