// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions that the entries lead to, each found when the program calls it first.
#pragma once

#include "mpi/contract/service.h"
#include "mpi/entries/served.h"

#pragma GCC visibility push(hidden)

// By the call's index; NULL: not found yet. Of calls.c.
extern gdr_mpi_function* gdr_mpi_own[];   // the library's PMPI_X
extern gdr_mpi_function* gdr_mpi_outer[]; // a tool's MPI_X, or the same
extern const unsigned gdr_mpi_calls;      // how many there are

// The caller of an entry, for the lookups: calls within this library are not always tail calls.
extern GDR_MPI_OF_THREAD const void* gdr_mpi_caller;

// Find a function for gdr_mpi_caller, and keep it. NULL: the library has no such function.
gdr_mpi_function* gdr_mpi_find_own(unsigned index);
gdr_mpi_function* gdr_mpi_find_outer(unsigned index);

// For a call that the library lacks. Returns MPI's error.
int gdr_mpi_lacks(unsigned index);

// Whether the MPI library of this function makes the call, itself or through a component of Open
// MPI.
int gdr_mpi_is_of_library(const void* by, gdr_mpi_function* in_library);

#pragma GCC visibility pop
