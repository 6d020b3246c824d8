// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI_X_c where the MPI library has none. Programs that look for it at run time, as mpi4py does,
// find libgdr_mpi.so.0's, and would have made the call by MPI_X themselves: so it is made by MPI_X
// here.
#pragma once

#include "mpi/entries/service.h"

// How an argument of MPI_X_c differs from that of MPI_X.
enum gdr_mpi_argument {
    GDR_MPI_SAME = '.',
    GDR_MPI_COUNT = 'n',    // MPI_Count for int
    GDR_MPI_POSITION = 'p', // MPI_Count* for int*, read and written
    GDR_MPI_SIZE = 'z',     // the same, written
    // MPI_Count* or MPI_Aint* for const int*; of so many elements:
    GDR_MPI_OF_SIZE = 'S',    // ranks that the data go to or come from
    GDR_MPI_OF_SENDING = 'A', // the same, unless the first argument is MPI_IN_PLACE
    GDR_MPI_OF_ROOT = 'R',    // the same, and significant at the root alone
    GDR_MPI_OF_LOCAL = 'L',   // ranks of the local group
    GDR_MPI_OF_SOURCES = 'I', // neighbours
    GDR_MPI_OF_TARGETS = 'O',
};

struct gdr_mpi_large_call {
    const char* arguments; // a gdr_mpi_argument each
    int comm, root;        // their positions, -1: none
    int stays;             // MPI may read arrays until a request completes
};

// The call by the small form. caller: whose MPI library it is. Returns what MPI returns, or
// MPI_ERR_COUNT where a value does not fit into an int, and MPI_ERR_OTHER where memory is out. Any
// thread. Arrays that MPI may read later are kept until it gives the request's handle again.
int gdr_mpi_by_small_form(const struct gdr_mpi_large_call* call, const void* caller,
                          gdr_mpi_function* small, const gdr_mpi_word* arguments);

// MPI_ERR_OTHER of the caller's MPI library.
int gdr_mpi_error_other(const void* caller);
