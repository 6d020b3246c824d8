// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module's service as the entries see it, in words that they read with plain loads, which
// compilers fold into comparisons and jumps. Each word is stored at once and never becomes invalid
// again. Without a service all memory is host memory, and there are no requests.
#pragma once

#include "mpi/contract/service.h"

#include <stdatomic.h>

#define GDR_MPI_OF_THREAD __thread __attribute__((tls_model("initial-exec")))

#pragma GCC visibility push(hidden) // so that they are read without a table of addresses

extern _Atomic(const struct gdr_mpi_service*) gdr_mpi_offered; // NULL: none

// Copies of the service's fields, so that a look at them takes no register.
extern struct gdr_mpi_host_memory gdr_mpi_host;
extern const gdr_mpi_word *gdr_mpi_requests, *gdr_mpi_partitions, *gdr_mpi_in_epochs;

// Of this thread; unknown while its end is 0.
extern GDR_MPI_OF_THREAD struct gdr_mpi_stack gdr_mpi_stack;

// The MPI library's own calls during a call are not looked at again; calls that its callbacks make
// are handled as others.
extern GDR_MPI_OF_THREAD int gdr_mpi_depth;

#pragma GCC visibility pop
