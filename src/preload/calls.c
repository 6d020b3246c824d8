// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The calls by which a UCX shows that it is there: its libraries call one another by name, so what
// is preloaded is called first, also where that UCX was opened later, by its path and locally. Each
// call goes on to the UCX of its caller. Who has no UCX pays for the loading of this library alone.
#include "preload/attach.h"
#include "preload/objects.h"

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { UNSUPPORTED = -22 }; // UCS_ERR_UNSUPPORTED

// The number and meaning of the arguments after the second differ between series: all are passed
// on.
EXPORT int ucs_config_parser_fill_opts(void* options, void* table, const char* prefix,
                                       const void* fourth, uintptr_t fifth)
{
    const void* caller = __builtin_return_address(0);
    int (*fill)(void*, void*, const char*, const void*, uintptr_t) =
        gdr_function_for(caller, "ucs_config_parser_fill_opts");
    if (!fill)
        return UNSUPPORTED;
    // Not libucs, which reads some while it is being loaded, and the rest of its UCX is not there.
    if (gdr_object_of(caller) != gdr_object_of(fill)) {
        const void* in_libuct = gdr_function_for(caller, "uct_component_register");
        if (in_libuct && gdr_function_for(in_libuct, "ucs_config_parser_fill_opts") == fill)
            gdr_found_ucx(in_libuct, GDR_UCX_STARTS);
    }
    return fill(options, table, prefix, fourth, fifth);
}

// A program of UCT asks for its components before it has any variable read.
EXPORT int uct_query_components(void** components, unsigned* count)
{
    int (*query)(void**, unsigned*) =
        gdr_function_for(__builtin_return_address(0), "uct_query_components");
    if (!query)
        return UNSUPPORTED;
    gdr_found_ucx(query, GDR_UCX_STARTS);
    return query(components, count);
}

// UCX 1.16 to 1.21 forget that UCP's registration cache may be switched off: to abort a rendezvous,
// ucp_request_memh_invalidate() has the registration invalidated in the cache, and crashes where
// there is none.
//
// Without a cache the registration is the request's own, and UCP releases it in its next statement:
// the memory domain is told to invalidate it then. UCP completes the request from its progress,
// after that. What other requests have registered with the HCA together with it stays within the
// peer's reach until they end.
EXPORT void ucs_rcache_region_invalidate(void* rcache, void* region, void (*completed)(void*),
                                         void* argument)
{
    if (!rcache) {
        completed(argument);
        return;
    }
    void (*invalidate)(void*, void*, void (*)(void*), void*) =
        gdr_function_for(__builtin_return_address(0), "ucs_rcache_region_invalidate");
    invalidate(rcache, region, completed, argument);
}

__attribute__((constructor)) static void look_for_ucx(void)
{
    const void* in_libuct = gdr_libuct_loaded_last();
    if (!in_libuct)
        gdr_come_to_the_front();
    else
        gdr_found_ucx(in_libuct, gdr_is_in_front() ? GDR_UCX_PRESENT : GDR_UCX_PRESENT_UNHEARD);
}
