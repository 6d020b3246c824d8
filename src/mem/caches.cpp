// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Adds and removes caches.
#include "mem/caches.hpp"

#include "mem/cache.hpp"

namespace gdr::mem {

Caches& Caches::instance()
{
    static auto* caches = new Caches; // never destroyed: threads may look until the end
    return *caches;
}

void Caches::add(Cache& cache)
{
    std::lock_guard guard(lock_);
    all_.push_back(&cache);
    learnt_.store(0, std::memory_order_relaxed);
}

void Caches::remove(Cache& cache)
{
    std::lock_guard guard(lock_);
    std::erase(all_, &cache);
}

void Caches::learn(const cuda::Pointer& memory)
{
    const uint64_t bit = uint64_t{1} << (memory.device & 63);
    if ((learnt_.load(std::memory_order_relaxed) & bit) != 0) {
        return;
    }
    std::shared_lock guard(lock_); // nobody adds a cache meanwhile
    bool all = true;
    for (Cache* cache : all_) {
        all = cache->learn(memory) && all;
    }
    if (all) {
        learnt_.fetch_or(bit, std::memory_order_relaxed);
    }
}

} // namespace gdr::mem
