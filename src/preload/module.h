// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What libuct_gdr.so.0, which waits for a UCX, tells the module, which serves it.
#pragma once

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gdr_moment {
    GDR_UCX_PRESENT,         // it may never be used; GDR_UCX_STARTS will follow if it is
    GDR_UCX_PRESENT_UNHEARD, // its calls do not pass through libuct_gdr.so.0: nothing will follow
    GDR_UCX_STARTS,          // it is about to read variables, or to list its components
};

enum gdr_answer {
    GDR_OTHER,   // the module serves another UCX
    GDR_REFUSED, // it cannot serve this one, but the next; the handle is kept
    GDR_SERVED,  // this is the one; the handle is kept
};

// A UCX, by a handle of its libuct, and through that of the libraries which libuct is linked with.
// Calls must not overlap.
enum gdr_answer gdr_attach(void* libuct, enum gdr_moment moment);

// UCX's ucs_memtype_cache_lookup(), answered where the address is known, to be of host memory or of
// what GPU, and no component of the UCX that is served could know better; else that of UCX is
// asked. Any thread; without locks, and without system calls.
typedef int gdr_lookup(const void* address, size_t length, void* info);
int gdr_look_up_memory(const void* address, size_t length, void* info, gdr_lookup* in_ucx);

// The calling thread makes a context of UCP in the UCX that is served, with this ucp_config_t,
// which that UCX's ucp_config_print() prints; and has made it.
typedef void gdr_print_config(const void* config, FILE* stream, const char* title, unsigned flags);
void gdr_context_begins(const void* config, gdr_print_config* print);
void gdr_context_ends(void);

// An interface is about to be opened in the UCX that is served, as these uct_iface_params_t tell.
// Any thread.
void gdr_iface_opens(const void* params, int by_ucp);

#ifdef __cplusplus
}
#endif
