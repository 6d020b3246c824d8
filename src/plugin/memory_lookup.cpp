// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// For each buffer that is sent or received, UCP asks libucs's memory type cache, and its memory
// domains if that is disabled. The preloaded library intercepts the query and calls this: most host
// memory is known here, and so is most device memory once a domain has been asked.
#include "plugin/memory_lookup.hpp"

#include "abi/memory_detection.hpp"
#include "abi/series.hpp"
#include "copy/detected_memory.hpp"
#include "mem/host_pages.hpp"
#include "preload/module.h"

extern "C" {
#include <ucs/type/status.h>
}

#include <atomic>
#include <cstdint>

namespace gdr::plugin {
namespace {

constexpr ucs_status_t kHostMemory = UCS_ERR_NO_ELEM; // "not in the cache"

// The pages that UCP is answered from; no_sets until that is allowed.
constinit std::atomic<const mem::host_pages::Sets*> sets{&mem::host_pages::no_sets};

// A separate function with the same arguments, so that the fast check before it, which finds most
// pages, saves and moves no registers for it.
[[gnu::noinline]] int look_up_elsewhere(const void* address, size_t length, void* info,
                                        gdr_lookup* in_ucx)
{
    if (sets.load(std::memory_order_relaxed) == &mem::host_pages::no_sets) {
        return in_ucx(address, length, info);
    }
    if (mem::host_pages::contains(reinterpret_cast<uintptr_t>(address))) {
        return kHostMemory;
    }
    if (const auto known = copy::detected_memory::find(address, length)) {
        abi::series().tell_memory(*known, info);
        return UCS_OK;
    }
    return in_ucx(address, length, info);
}

} // namespace

void answer_memory_lookups()
{
    const bool may = abi::only_cuda_is_detected();
    sets.store(may ? &mem::host_pages::sets : &mem::host_pages::no_sets, std::memory_order_relaxed);
}

} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] int gdr_look_up_memory(const void* address, size_t length,
                                                                 void* info, gdr_lookup* in_ucx)
{
    using namespace gdr;
    const uintptr_t page = gdr_page_of(reinterpret_cast<uintptr_t>(address));
    const mem::host_pages::Sets& sets = *plugin::sets.load(std::memory_order_relaxed);
    if (sets[gdr_page_set_of(page)].is(0, page)) [[likely]] {
        return plugin::kHostMemory;
    }
    return plugin::look_up_elsewhere(address, length, info, in_ucx);
}
