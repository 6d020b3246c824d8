// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks registrations that UCP kept while their memory may have been freed.
#include "rc/current_region.hpp"

#include "log/log.hpp"
#include "mem/cache.hpp"

namespace gdr::rc {

mem::Region* current_region(mem::Region* region, const void* address, size_t length)
{
    mem::Failure failure;
    mem::Region* const current =
        mem::Cache::current(region, reinterpret_cast<uintptr_t>(address), length, &failure);
    if (current == nullptr) {
        gdr_log(error,
                "an operation fails: %zu bytes at %p are not the GPU memory that was registered: "
                "%s. Free memory when the operations on it are complete",
                length, address,
                failure.cause.empty() ? "there is other memory now" : failure.cause.c_str());
    }
    return current;
}

} // namespace gdr::rc
