// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX 1.16 to 1.21 forget that UCP's registration cache may be switched off: to abort a rendezvous,
// ucp_request_memh_invalidate() has the registration invalidated in the cache, with libucs's
// function of this name, and crashes where there is none. A library that is preloaded, or linked
// before libucs, is asked instead.
//
// Without a cache the registration is the request's own, and UCP releases it in its next statement:
// the memory domain is told to invalidate it then. UCP completes the request from its progress,
// after that. What other requests have registered with the HCA together with it stays within the
// peer's reach until they end.
#include "abi/uct_calls.hpp"

#include <dlfcn.h>

extern "C" [[gnu::visibility("default")]] void
ucs_rcache_region_invalidate(void* rcache, void* region, void (*completed)(void*), void* argument)
{
    if (!rcache) {
        completed(argument);
        return;
    }
    static const auto of_libucs = reinterpret_cast<gdr::abi::InvalidateRegion*>(
        dlsym(RTLD_NEXT, "ucs_rcache_region_invalidate"));
    of_libucs(rcache, region, completed, argument);
}
