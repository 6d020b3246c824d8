// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks in the table of host pages, then asks the driver.
#include "mem/cuda_memory.hpp"

#include "cuda/recent.hpp"
#include "mem/host_pages.hpp"
#include "mem/own_pins.hpp"

namespace gdr::mem {

std::optional<cuda::Pointer> find_cuda_memory(const cuda::Driver& driver, const void* address,
                                              bool keep_host_pages, bool* pinned)
{
    if (host_pages::contains(reinterpret_cast<uintptr_t>(address))) {
        return std::nullopt;
    }
    return ask_for_cuda_memory(driver, address, keep_host_pages, pinned);
}

std::optional<cuda::Pointer> ask_for_cuda_memory(const cuda::Driver& driver, const void* address,
                                                 bool keep_host_pages, bool* pinned)
{
    if (cuda::is_untouched()) {
        if (keep_host_pages) {
            host_pages::add(reinterpret_cast<uintptr_t>(address));
        }
        return std::nullopt;
    }
    const cuda::Pointer memory = cuda::finished(driver, address);
    if (memory.kind == cuda::MemoryKind::host) {
        if (pinned != nullptr) {
            *pinned = memory.pinned;
        }
        if (keep_host_pages && (!memory.pinned || own_pins::contain(memory.buffer_id))) {
            host_pages::add(reinterpret_cast<uintptr_t>(address));
        }
        return std::nullopt;
    }
    return memory;
}

} // namespace gdr::mem
