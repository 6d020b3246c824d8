// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registering and leaving.
#include "mem/caches.hpp"

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
}

void Caches::remove(Cache& cache)
{
    std::lock_guard guard(lock_);
    std::erase(all_, &cache);
}

} // namespace gdr::mem
