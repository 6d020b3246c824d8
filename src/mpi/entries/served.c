// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/entries/entry.h"

_Atomic(const struct gdr_mpi_service*) gdr_mpi_offered = NULL;

static const word none = 0;
static word no_pages[GDR_PAGE_WAYS << GDR_PAGE_SET_BITS];
struct gdr_mpi_host_memory gdr_mpi_host = {
    .variables = 0, .variables_last = UINTPTR_MAX, .heap_end = &none, .pages = no_pages};
const word *gdr_mpi_requests = &none, *gdr_mpi_partitions = &none, *gdr_mpi_in_epochs = &none;

GDR_MPI_OF_THREAD struct gdr_mpi_stack gdr_mpi_stack = {0, 0};
GDR_MPI_OF_THREAD int gdr_mpi_depth = 0;

#define STORE(to, value) __atomic_store_n(&(to), value, __ATOMIC_RELEASE)

// One thread at a time. Other threads may read a mixture of old and new words, which never forms a
// range that neither has: an empty range begins at the last address and ends at 0.
static void see(const struct gdr_mpi_host_memory* offered)
{
    STORE(gdr_mpi_host.pages, offered->pages);
    STORE(gdr_mpi_host.heap_end, offered->heap_end);
    STORE(gdr_mpi_host.heap, offered->heap);
    STORE(gdr_mpi_host.any_stack, offered->any_stack);
    STORE(gdr_mpi_host.variables, offered->variables);
    STORE(gdr_mpi_host.variables_last, offered->variables_last);
}

EXPORT int gdr_mpi_serve(const struct gdr_mpi_service* offered)
{
    if (offered->calls != gdr_mpi_calls) {
        return 0;
    }
    atomic_store(&gdr_mpi_offered, offered);
    STORE(gdr_mpi_requests, offered->requests);
    STORE(gdr_mpi_partitions, offered->partitions);
    STORE(gdr_mpi_in_epochs, offered->in_epochs);
    see(&offered->host);
    return 1;
}
