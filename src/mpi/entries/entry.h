// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the entries are made of. calls.c is generated and has, for each call, functions with the
// call's arguments:
//
//     MPI_X           passes the call on if its buffers are seen at once to be host memory. What is
//                     rare is a function of its own, so that this one needs no stack and ends in a
//                     jump
//     entry_MPI_X     the same function by a name that no other library can take over
//     first_of_MPI_X  the first call finds where it leads
//     look_at_MPI_X   looks closer, and gives the call to the module if need be
//
// and the same for PMPI_X, which leads to the MPI library, whereas MPI_X leads to a tool if there
// is one. choose_MPI_X and choose_PMPI_X are for names.h.
#pragma once

#include "mpi/contract/page_sets.h"
#include "mpi/contract/service.h"
#include "mpi/entries/functions.h"
#include "mpi/entries/names.h"
#include "mpi/entries/served.h"

#define EXPORT __attribute__((visibility("default")))
#define RARE __attribute__((noinline, cold))

typedef gdr_mpi_word word;
typedef gdr_mpi_function function;

// The entries load the library's function last, so that a look can use the remaining registers.
static inline function* load(function* const* from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

static inline void keep(function** to, function* found)
{
    __atomic_store_n(to, found, __ATOMIC_RELEASE);
}

static inline const struct gdr_mpi_service* service(void)
{
    return atomic_load(&gdr_mpi_offered);
}

// Whether a buffer of the caller, or of callers above it, is in host memory. frame: the entry's
// frame.
static inline int is_seen_at_once(word buffer, word frame)
{
    const word page = gdr_page_of(buffer);
    return (buffer >= gdr_mpi_host.variables && buffer <= gdr_mpi_host.variables_last) ||
           (buffer >= gdr_mpi_host.heap && buffer < *gdr_mpi_host.heap_end) ||
           (buffer >= frame && frame >= gdr_mpi_stack.start && buffer < gdr_mpi_stack.end &&
            gdr_mpi_host.any_stack) ||
           gdr_mpi_host.pages[gdr_page_set_of(page) * GDR_PAGE_WAYS] == page;
}

// The same, with what the module knows. There must be a service.
static inline int is_seen(word buffer, word frame)
{
    const struct gdr_mpi_service* const by = service();
    if (!gdr_mpi_stack.end) {
        gdr_mpi_stack = by->stack_of_thread();
    }
    return is_seen_at_once(buffer, frame) || by->is_host_memory(buffer);
}

static inline int no_requests(void)
{
    return !*gdr_mpi_requests && !*gdr_mpi_partitions;
}

static inline int nothing_in_epochs(void)
{
    return !*gdr_mpi_in_epochs;
}

// Whether the module is to make the call: it is none that the MPI library makes during another.
static inline int is_of_application(const void* caller, function* in_library)
{
    return !gdr_mpi_depth || !gdr_mpi_is_of_library(caller, in_library);
}
