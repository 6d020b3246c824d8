// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/device_memory.hpp"

#include "mem/cuda_memory.hpp"
#include "mem/unmap_watch.hpp"

#include <atomic>

namespace gdr::mpi {

namespace {

std::atomic<void (*)()> to_be_told{nullptr}; // until it has been called

} // namespace

void set_device_memory_listener(void (*comes)())
{
    to_be_told.store(comes);
}

bool device_memory_is_untold()
{
    return to_be_told.load(std::memory_order_acquire) != nullptr;
}

void tell_of_device_memory()
{
    if (auto* const comes = to_be_told.load(std::memory_order_acquire)) {
        comes();
        to_be_told.store(nullptr, std::memory_order_release);
    }
}

std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address,
                                                bool* other)
{
    static const bool keep_host_pages = mem::unmaps_are_seen();
    auto memory = mem::find_cuda_memory(driver, address, keep_host_pages, other);
    if (memory && memory->kind != cuda::MemoryKind::device) {
        memory.reset();
        if (other != nullptr) {
            *other = true;
        }
    }
    if (memory) {
        tell_of_device_memory();
    }
    return memory;
}

const cuda::Pointer* KnownDeviceMemory::find(const void* address, bool* other)
{
    if (reinterpret_cast<uintptr_t>(address) - latest_.base >= latest_.length) {
        const auto found = find_device_memory(driver_, address, other);
        if (!found) {
            return nullptr;
        }
        latest_ = *found;
    }
    return &latest_;
}

} // namespace gdr::mpi
