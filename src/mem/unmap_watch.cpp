// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One handler for the whole process.
#include "mem/unmap_watch.hpp"

#include "abi/host.hpp"
#include "abi/memory_events.hpp"
#include "mem/unmap_log.hpp"

namespace gdr::mem {
namespace {

void log_unmap(void* address, size_t length)
{
    UnmapLog::instance().append(reinterpret_cast<uintptr_t>(address), length);
}

} // namespace

bool unmaps_are_seen()
{
    static const bool seen = [] {
        bool installed = abi::watch_unmap(log_unmap);
        if (!installed)
            gdr_log(warn,
                    "UCX's memory hooks are off: host memory is registered anew for each transfer, "
                    "which is slow (is UCX_MEM_EVENTS=n set?)");
        return installed;
    }();
    return seen;
}

} // namespace gdr::mem
