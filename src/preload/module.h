// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The interface between libuct_gdr.so.0, which waits for a UCX, and the module, which serves it.
#pragma once

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gdr_moment {
    GDR_UCX_PRESENT,         // it may never be used; GDR_UCX_STARTS follows if it is
    GDR_UCX_PRESENT_UNHEARD, // its calls bypass libuct_gdr.so.0: nothing follows
    GDR_UCX_STARTS,          // it is about to read variables or to list its components
};

enum gdr_answer {
    GDR_OTHER,   // the module serves another UCX
    GDR_REFUSED, // it cannot serve this UCX but may serve the next; it keeps the handle
    GDR_SERVED,  // it serves this UCX; it keeps the handle
};

// Reports a UCX, by a handle of its libuct, which also reaches the libraries that libuct is linked
// with. Calls must not overlap.
enum gdr_answer gdr_attach(void* libuct, enum gdr_moment moment);

// UCX's ucs_memtype_cache_lookup(). It answers if the address is known to be host memory or memory
// of a certain GPU, and no component of the served UCX could know better; otherwise it asks UCX.
// Any thread; no locks and no system calls.
typedef int gdr_lookup(const void* address, size_t length, void* info);
int gdr_look_up_memory(const void* address, size_t length, void* info, gdr_lookup* in_ucx);

// The calling thread begins to make a UCP context in the served UCX, with this ucp_config_t, which
// that UCX's ucp_config_print() prints; and ends it.
typedef void gdr_print_config(const void* config, FILE* stream, const char* title, unsigned flags);
void gdr_context_begins(const void* config, gdr_print_config* print);
void gdr_context_ends(void);

// An interface with these uct_iface_params_t is about to be opened in the served UCX. Any thread.
void gdr_iface_opens(const void* params, int by_ucp);

#ifdef __cplusplus
}
#endif
