// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/memory_rules.hpp"

#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "host/memtype_cache.hpp"
#include "mem/unmap_watch.hpp"
#include "rc/memory_domain.hpp"

namespace gdr::rc {

MemoryRules::MemoryRules(const MemoryDomain& domain)
    : any_memory(cuda::open_driver() != nullptr && !domain.serves_protocols_v2()),
      clears_behind(any_memory && abi::reads_behind_rts()),
      untyped_shorts(host::memtype_cache().looks_empty()), keep_host_pages(mem::unmaps_are_seen())
{
}

} // namespace gdr::rc
