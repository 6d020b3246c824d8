// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One handler for the whole process.
#include "mem/unmap_watch.hpp"

#include "abi/memory_events.hpp"
#include "abi/settings.hpp"
#include "log/log.hpp"
#include "mem/host_pages.hpp"
#include "mem/unmap_log.hpp"

namespace gdr::mem {
namespace {

void on_unmapped(void* address, size_t length)
{
    const auto start = reinterpret_cast<uintptr_t>(address);
    host_pages::forget(start, length);
    UnmapLog::instance().append(start, length);
}

// Some allocators unmap without an event, because they make the system call themselves (sanitizer
// runtimes, for example). UCX's own hooks see what CUDA maps in place of that memory.
void on_mapped(void* address, size_t length)
{
    host_pages::forget(reinterpret_cast<uintptr_t>(address), length);
}

} // namespace

bool unmaps_are_seen()
{
    static const bool seen = [] {
        bool installed = abi::watch_mappings(on_mapped, on_unmapped);
        if (!installed) {
            const bool by_user = !abi::boolean_setting("MEM_EVENTS", true);
            gdr_log(warn,
                    "UCX's memory hooks are off: host memory is registered anew for each transfer, "
                    "which is slow (%s)",
                    by_user
                        ? "UCX_MEM_EVENTS=n: unset it"
                        : "UCX could not install them; UCX_MEM_MMAP_HOOK_MODE=none, valgrind or a "
                          "static malloc keep it from that");
        }
        return installed;
    }();
    return seen;
}

} // namespace gdr::mem
