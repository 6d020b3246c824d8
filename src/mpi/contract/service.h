// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the module does for libgdr_mpi.so.0, the library in front of the MPI library. Both have the
// calls of calls.list, in its order.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An argument of any MPI call, as the ABI passes it in 64 bits. An int, and a handle of MPICH, is
// the lower 32 bits; the others are undefined.
typedef uintptr_t gdr_mpi_word;
typedef void gdr_mpi_function(void);

// What is certainly host memory and can be recognised without a call.
struct gdr_mpi_host_memory {
    gdr_mpi_word variables, variables_last; // of the program; `variables_last` is included
    gdr_mpi_word heap;
    const gdr_mpi_word* heap_end;
    int any_stack;             // of threads, as far as it is used
    const gdr_mpi_word* pages; // of known pages; sets as in mpi/contract/page_sets.h
};

// The frames of a caller on another stack, such as a coroutine's, are not in it.
struct gdr_mpi_stack {
    gdr_mpi_word start, end;
};

struct gdr_mpi_service {
    unsigned calls; // the number of calls
    // Whether GPU memory can be passed to the MPI library that holds this function. Any thread.
    int (*enabled)(gdr_mpi_function* function);
    // A function of an MPI library is called for the first time, possibly by the library's
    // components. If not by those, the program's calls come through libgdr_mpi.so.0. Any thread.
    void (*first_called)(gdr_mpi_function* function);
    // A call is passed on unchanged, to a tool that need not come back, or within another call. Any
    // thread.
    void (*forwarded)(unsigned index, const gdr_mpi_word* arguments);
    // If these show that call() has nothing to do, the library's function may be called at once.
    // Any thread.
    struct gdr_mpi_host_memory host;
    struct gdr_mpi_stack (*stack_of_thread)(void); // of the calling thread; its end is not 0
    int (*is_host_memory)(gdr_mpi_word buffer);    // for sure; MPI_IN_PLACE is, MPI_BOTTOM not
    // Their numbers, for calls that start, complete or free requests, or that concern partitions.
    const gdr_mpi_word *requests, *partitions;
    const gdr_mpi_word* in_epochs; // for calls that synchronise
    // Makes the call by the MPI library's own function (PMPI_X), with those arguments replaced that
    // it cannot handle. Returns what MPI returns. An error handler may leave it by an exception or
    // longjmp. Meanwhile *depth is one more. Any thread; functions that MPI calls back may call it
    // recursively.
    int (*call)(unsigned index, gdr_mpi_function* function, gdr_mpi_word* arguments, int* depth);
};

// A function of libgdr_mpi.so.0. From now on calls go to this service, which must exist forever.
// Returns zero if the two libraries do not match. One thread at a time.
typedef int gdr_mpi_serve_type(const struct gdr_mpi_service* service);
gdr_mpi_serve_type gdr_mpi_serve;

// A function of libgdr_mpi.so.0. Whether a call of that name (MPI_X) has come to it. Any thread.
typedef int gdr_mpi_heard_type(const char* name);
gdr_mpi_heard_type gdr_mpi_heard;

#ifdef __cplusplus
}
#endif
