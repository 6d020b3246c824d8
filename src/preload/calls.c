// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The calls that show the presence of a UCX. UCX's libraries call one another by name, so the
// preloaded library is called first, even if that UCX was opened later, by path and locally. Each
// call is forwarded to the UCX of its caller. A process without UCX only pays for loading this
// library.
#include "preload/attach.h"
#include "preload/objects.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { UNSUPPORTED = -22 }; // UCS_ERR_UNSUPPORTED

// The number and meaning of the arguments after the second differ between series, so all are passed
// on.
EXPORT int ucs_config_parser_fill_opts(void* options, void* table, const char* prefix,
                                       const void* fourth, uintptr_t fifth)
{
    const void* caller = __builtin_return_address(0);
    int (*fill)(void*, void*, const char*, const void*, uintptr_t) =
        gdr_function_for(caller, "ucs_config_parser_fill_opts");
    if (!fill) {
        return UNSUPPORTED;
    }
    // Not for calls of libucs: it reads some variables while it is being loaded, and the rest of
    // its UCX is missing.
    if (gdr_object_of(caller) != gdr_object_of(fill)) {
        const void* in_libuct = gdr_function_for(caller, "uct_component_register");
        if (in_libuct && gdr_function_for(in_libuct, "ucs_config_parser_fill_opts") == fill) {
            gdr_found_ucx(in_libuct, GDR_UCX_STARTS);
        }
    }
    return fill(options, table, prefix, fourth, fifth);
}

// A UCT program queries the components before any variables are read for it.
EXPORT int uct_query_components(void** components, unsigned* count)
{
    int (*query)(void**, unsigned*) =
        gdr_function_for(__builtin_return_address(0), "uct_query_components");
    if (!query) {
        return UNSUPPORTED;
    }
    gdr_found_ucx(query, GDR_UCX_STARTS);
    return query(components, count);
}

// A program can give a context variables of its own. Without a configuration UCP reads the
// environment, as the module does.
EXPORT int ucp_init_version(unsigned major, unsigned minor, const void* params, const void* config,
                            void** context)
{
    const void* caller = __builtin_return_address(0);
    int (*init)(unsigned, unsigned, const void*, const void*, void**) =
        gdr_function_for(caller, "ucp_init_version");
    if (!init) {
        return UNSUPPORTED;
    }
    gdr_print_config* print = config ? gdr_function_for(caller, "ucp_config_print") : NULL;
    const struct gdr_service* service =
        print ? gdr_service_for(gdr_function_for(init, "uct_component_register")) : NULL;
    if (service) {
        service->context_begins(config, print);
    }
    const int status = init(major, minor, params, config, context);
    if (service) {
        service->context_ends();
    }
    return status;
}

// UCX 1.16 to 1.21 do not expect UCP's registration cache to be disabled: to abort a rendezvous,
// ucp_request_memh_invalidate() invalidates the registration in the cache, and crashes if there is
// none.
//
// Without a cache the registration belongs to the request, and UCP releases it in its next
// statement, which tells the memory domain to invalidate it. UCP completes the request afterwards,
// from its progress. Registrations with the HCA that other requests share stay accessible to the
// peer until those requests end.
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

// A library that queries memory types, and the function that answers it. Entries stay forever, and
// so do both libraries, so their addresses are never reused.
struct Asker {
    struct gdr_object object;
    int (*answer)(const void* address, size_t length, void* info, gdr_lookup* in_ucx);
    gdr_lookup* in_ucx;
    struct Asker* next;
};
static _Atomic(struct Asker*) askers = NULL;

static int ask_ucx(const void* address, size_t length, void* info, gdr_lookup* in_ucx)
{
    return in_ucx(address, length, info);
}

static struct Asker* add_asker(const void* caller)
{
    struct Asker* asker = calloc(1, sizeof(*asker));
    if (!asker) {
        return NULL;
    }
    asker->in_ucx = gdr_function_for(caller, "ucs_memtype_cache_lookup");
    const struct gdr_service* service =
        gdr_service_for(gdr_function_for(caller, "uct_component_register"));
    asker->answer = service ? service->look_up_memory : ask_ucx;
    if (!asker->in_ucx || !gdr_find_object(caller, &asker->object)) {
        free(asker);
        return NULL;
    }
    (void)gdr_open_object_of(caller);
    (void)gdr_open_object_of(asker->in_ucx);
    asker->next = atomic_load(&askers);
    while (!atomic_compare_exchange_weak(&askers, &asker->next, asker)) {
    }
    return asker;
}

__attribute__((noinline, cold)) static int answer_first(const void* address, size_t length,
                                                        void* info, const void* caller)
{
    const struct Asker* asker = add_asker(caller);
    return asker ? asker->answer(address, length, info, asker->in_ucx) : UNSUPPORTED;
}

// UCP queries each buffer. If the module serves that UCX, it knows most host memory itself.
EXPORT int ucs_memtype_cache_lookup(const void* address, size_t length, void* info)
{
    const void* caller = __builtin_return_address(0);
    const struct Asker* asker = atomic_load_explicit(&askers, memory_order_acquire);
    while (asker &&
           ((uintptr_t)caller < asker->object.start || (uintptr_t)caller >= asker->object.end)) {
        asker = asker->next;
    }
    return asker ? asker->answer(address, length, info, asker->in_ucx)
                 : answer_first(address, length, info, caller);
}

// Which operations UCP may use without checking the memory type depends on its transports.
EXPORT int uct_iface_open(void* md, void* worker, const void* params, const void* config,
                          void** iface)
{
    const void* caller = __builtin_return_address(0);
    int (*open)(void*, void*, const void*, const void*, void**) =
        gdr_function_for(caller, "uct_iface_open");
    if (!open) {
        return UNSUPPORTED;
    }
    const struct gdr_service* service = gdr_service_for(open);
    if (service) {
        const void* in_ucp = gdr_function_for(caller, "ucp_worker_create");
        service->iface_opens(params, in_ucp && gdr_object_of(in_ucp) == gdr_object_of(caller));
    }
    return open(md, worker, params, config, iface);
}

__attribute__((constructor)) static void look_for_ucx(void)
{
    const void* in_libuct = gdr_libuct_loaded_last();
    if (!in_libuct) {
        gdr_come_to_the_front();
    } else {
        gdr_found_ucx(in_libuct, gdr_is_in_front() ? GDR_UCX_PRESENT : GDR_UCX_PRESENT_UNHEARD);
    }
}
