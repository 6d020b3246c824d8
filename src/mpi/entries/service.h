// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the module does for libgdr_mpi.so.0, which is in front of the MPI library. Both have the
// calls from calls.list, in its order.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An argument of any of MPI's calls, as the processor passes it: in 64 bits, of which an int and
// MPICH's handles are the lower 32, whatever is in the others.
typedef uintptr_t gdr_mpi_word;
typedef void gdr_mpi_function(void);

// What is host memory for sure, seen without a call.
struct gdr_mpi_host_memory {
    gdr_mpi_word variables, variables_last; // of the program, the latter included
    gdr_mpi_word heap;
    const gdr_mpi_word* heap_end;
    int any_stack;             // of threads, as far as it is used
    const gdr_mpi_word* pages; // sets as tables/page_sets.h has them, of pages that are known
};

// Who calls from another one, as coroutines do, has no frame in it.
struct gdr_mpi_stack {
    gdr_mpi_word start, end;
};

struct gdr_mpi_service {
    unsigned calls; // how many there are
    // Whether GPU memory can be passed to the MPI library that holds this function. Any thread.
    int (*serves)(gdr_mpi_function* function);
    // A function of an MPI library is called for the first time, maybe by the library's components:
    // else what its user calls comes by way of libgdr_mpi.so.0. Any thread.
    void (*hears)(gdr_mpi_function* function);
    // A call is passed on as it is, to a tool that need not come back, or within one that is being
    // made. Any thread.
    void (*passes)(unsigned index, const gdr_mpi_word* arguments);
    // Without these call() has nothing to do, and the library's function may be called at once. Any
    // thread.
    struct gdr_mpi_host_memory host;
    struct gdr_mpi_stack (*stack_of_thread)(void); // of the calling one; its end is not 0
    int (*is_host_memory)(gdr_mpi_word buffer); // for sure; so is MPI_IN_PLACE, but not MPI_BOTTOM
    // How many there are: for calls that start, complete or free some, or are of partitions.
    const gdr_mpi_word *requests, *partitions;
    const gdr_mpi_word* in_epochs; // for calls that synchronise
    // Makes the call by the MPI library's own function (PMPI_X), with what it cannot handle
    // replaced in the arguments. Returns what MPI returns, or is left as an error handler leaves
    // it, by an exception or longjmp; meanwhile *depth is one more. Any thread; from within itself
    // by functions that MPI calls back.
    int (*call)(unsigned index, gdr_mpi_function* function, gdr_mpi_word* arguments, int* depth);
};

// Of libgdr_mpi.so.0. From now on calls go to this service, which stays for good. Zero: the two do
// not belong together. One thread at a time.
typedef int gdr_mpi_serve_type(const struct gdr_mpi_service* service);
gdr_mpi_serve_type gdr_mpi_serve;

// Of libgdr_mpi.so.0. Whether a call of that name (MPI_X) has come to it. Any thread.
typedef int gdr_mpi_heard_type(const char* name);
gdr_mpi_heard_type gdr_mpi_heard;

#ifdef __cplusplus
}
#endif
