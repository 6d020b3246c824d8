// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks functions up by handle: a UCX without them is served, too.
#include "abi/memtype_cache.hpp"

#include "abi/uct_calls.hpp"
#include "abi/ucx.hpp"

#include <atomic>
#include <cstddef>

#include <dlfcn.h>

namespace gdr::abi::memtype_cache {
namespace {

constexpr size_t kGranularity = 16; // of the cache
alignas(kGranularity) constexpr char kEntry[kGranularity] = {};

MemoryTypeUpdate* update = nullptr;
MemoryTypeRemove* remove = nullptr; // NULL: create() has not succeeded
constinit std::atomic<bool> taken_out{false};

template <class Function>
Function* find(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(ucx().libuct, name));
}

} // namespace

bool create()
{
    auto* const lookup = find<MemoryTypeLookup>("ucs_memtype_cache_lookup");
    update = find<MemoryTypeUpdate>("ucs_memtype_cache_update");
    auto* const found = find<MemoryTypeRemove>("ucs_memtype_cache_remove");
    alignas(64) char info[256]; // ucs_memory_info_t of any series
    if (lookup == nullptr || update == nullptr || found == nullptr ||
        lookup(kEntry, sizeof(kEntry), info) != UCS_ERR_NO_ELEM) {
        return false;
    }
    remove = found;
    look_empty(false);
    return true;
}

bool created()
{
    return remove != nullptr;
}

bool looks_empty()
{
    return taken_out.load();
}

void look_empty(bool empty)
{
    taken_out.store(empty);
    if (empty) {
        remove(kEntry, sizeof(kEntry));
    } else {
        update(kEntry, sizeof(kEntry), UCS_MEMORY_TYPE_CUDA, UCS_SYS_DEVICE_ID_UNKNOWN, 0);
    }
}

} // namespace gdr::abi::memtype_cache
