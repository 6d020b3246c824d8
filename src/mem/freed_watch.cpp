// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One listener for the whole process.
#include "mem/freed_watch.hpp"

#include "abi/memory_events.hpp"
#include "abi/own_cuda.hpp"
#include "cuda/driver.hpp"
#include "hooks/freeing_calls.hpp"
#include "host/registration_cache.hpp"
#include "log/log.hpp"
#include "mem/cache.hpp"
#include "mem/caches.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace gdr::mem {
namespace {

std::atomic<bool> reported_by_now{false};

void end_freed(uintptr_t start, uintptr_t end)
{
    Caches::instance().for_each("freeing device memory",
                                [&](Cache* cache) { cache->end_freed(start, end); });
}

// Called by UCX's hook, which also tells UCP.
void on_freed(void* address, size_t length)
{
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (!Cache::any_locked_by_this_thread() && !cuda::in_forked_child()) {
        end_freed(start, start + length);
    }
}

// Called by our hook. It ends UCP's registrations first, so that UCP makes no new use of the
// others.
void before_free(uintptr_t start, uintptr_t end)
{
    if (Cache::any_locked_by_this_thread()) {
        return;
    }
    host::registration_cache().end_registrations(reinterpret_cast<void*>(start), end - start);
    end_freed(start, end);
}

void after_context()
{
    if (!Cache::any_locked_by_this_thread()) {
        Caches::instance().for_each("freeing a context's memory", &Cache::collect_freed);
    }
}

// Returns why some frees are not seen, or empty. A UCX built with CUDA has fewer hooks than we
// install, and they cannot be patched again.
std::string watch()
{
    if (abi::built_with_cuda()) {
        return "this UCX has hooks of its own";
    }
    return hooks::watch_frees({before_free, after_context});
}

} // namespace

void listen_to_own_cuda()
{
    static const bool listening = [] {
        if (abi::built_with_cuda()) {
            abi::watch_frees(on_freed);
        }
        return true;
    }();
    (void)listening;
}

bool frees_are_reported()
{
    static const bool reported = [] {
        const std::string why_not = watch();
        if (!why_not.empty()) {
            gdr_log(diag,
                    "not all device memory that is freed is seen: %s. The GPU gets memory that was "
                    "sent or received back up to a second after the program frees it; if an "
                    "allocation fails meanwhile, repeat it after a second",
                    why_not.c_str());
        }
        reported_by_now = why_not.empty();
        return why_not.empty();
    }();
    return reported;
}

bool frees_are_reported_by_now()
{
    return reported_by_now.load(std::memory_order_acquire);
}

} // namespace gdr::mem
