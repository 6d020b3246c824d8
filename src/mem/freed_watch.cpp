// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One listener for the whole process.
#include "mem/freed_watch.hpp"

#include "abi/host.hpp"
#include "abi/own_cuda.hpp"
#include "abi/registration_cache.hpp"
#include "hooks/freeing_calls.hpp"
#include "mem/cache.hpp"
#include "mem/caches.hpp"

#include <cstdint>
#include <string>

namespace gdr::mem {
namespace {

// First UCP's, which then makes no new use of ours.
void before_free(uintptr_t start, uintptr_t end)
{
    if (Cache::any_locked_by_this_thread())
        return;
    abi::end_registrations(reinterpret_cast<void*>(start), end - start);
    Caches::instance().for_each("freeing device memory",
                                [&](Cache* cache) { cache->end_freed(start, end); });
}

void after_context()
{
    if (!Cache::any_locked_by_this_thread())
        Caches::instance().for_each("freeing a context's memory", &Cache::collect_freed);
}

std::string watch()
{
    if (abi::built_with_cuda()) // and patches the driver, or finds it patched and fails
        return "this UCX has hooks of its own";
    return hooks::watch_frees({before_free, after_context});
}

} // namespace

bool frees_are_told()
{
    static const bool told = [] {
        const std::string why_not = watch();
        if (!why_not.empty())
            gdr_log(diag,
                    "not all device memory that is freed is seen: %s. What was communicated stays "
                    "taken for up to a second after it is freed",
                    why_not.c_str());
        return why_not.empty();
    }();
    return told;
}

} // namespace gdr::mem
