// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks functions up by handle: a UCX without them is served, too.
#include "host/memtype_cache.hpp"

#include "abi/settings.hpp"
#include "abi/ucx.hpp"

#include <cstddef>

#include <dlfcn.h>

namespace gdr::host {
namespace {

constexpr size_t kGranularity = 16; // of the cache
alignas(kGranularity) constexpr char kEntry[kGranularity] = {};

template <class Function>
Function* find(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(abi::ucx().libuct, name));
}

} // namespace

MemtypeCache& memtype_cache()
{
    static constinit MemtypeCache instance;
    return instance;
}

// A global option takes effect at once; setting the default as well makes ucx_info -c show it.
bool MemtypeCache::make()
{
    return abi::set_global_option(name(), value()) && abi::set_default(name(), value());
}

void MemtypeCache::hold()
{
    auto* const lookup = find<abi::MemoryTypeLookup>("ucs_memtype_cache_lookup");
    auto* const update = find<abi::MemoryTypeUpdate>("ucs_memtype_cache_update");
    auto* const remove = find<abi::MemoryTypeRemove>("ucs_memtype_cache_remove");
    alignas(64) char info[256]; // ucs_memory_info_t of any series
    if (lookup == nullptr || update == nullptr || remove == nullptr ||
        lookup(kEntry, sizeof(kEntry), info) != UCS_ERR_NO_ELEM) {
        return;
    }
    update_ = update;
    remove_ = remove;
    look_empty(false);
}

void MemtypeCache::look_empty(bool empty)
{
    taken_out_.store(empty);
    if (empty) {
        remove_(kEntry, sizeof(kEntry));
    } else {
        update_(kEntry, sizeof(kEntry), UCS_MEMORY_TYPE_CUDA, UCS_SYS_DEVICE_ID_UNKNOWN, 0);
    }
}

} // namespace gdr::host
