// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The pages that are known, then the driver.
#include "mem/cuda_memory.hpp"

#include "cuda/recent.hpp"
#include "mem/host_pages.hpp"

namespace gdr::mem {

std::optional<cuda::Pointer> find_cuda_memory(const cuda::Driver& driver, const void* address,
                                              bool keep_host_pages)
{
    const auto where = reinterpret_cast<uintptr_t>(address);
    if (host_pages::contains(where))
        return std::nullopt;
    const cuda::Pointer memory = cuda::finished(driver, address);
    if (memory.kind == cuda::MemoryKind::host) {
        if (keep_host_pages && !memory.pinned)
            host_pages::add(where);
        return std::nullopt;
    }
    return memory;
}

} // namespace gdr::mem
