// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which names this library shows to the dynamic linker: those that the MPI library of the process
// has, too. Programs look up calls of newer MPIs at run time, by weak references as mpi4py does or
// by dlsym, and do without those that they do not find.
//
// If the MPI library is loaded when this library is relocated (the program is linked with it), the
// names that it lacks are removed from this library's symbol table. In other programs all names
// become indirect functions (STT_GNU_IFUNC): the dynamic linker then asks for each name at lookup,
// also when it relocates the objects that are loaded together with the MPI library.
#pragma once

#include "mpi/contract/service.h"

#include <stddef.h>

typedef gdr_mpi_function* gdr_mpi_choose(void); // the dynamic linker calls it without arguments

// A name's function, and the resolver that the dynamic linker calls; the resolver returns NULL if
// the name is hidden.
struct gdr_mpi_symbol {
    gdr_mpi_function* function;
    gdr_mpi_function* (*choose)(void);
};

struct gdr_mpi_name {
    const char* name;                 // PMPI_X
    struct gdr_mpi_symbol symbols[2]; // PMPI_X and MPI_X
};

enum { GDR_MPI_MOST_NAMES = 512 };

#pragma GCC visibility push(hidden)

extern const struct gdr_mpi_name gdr_mpi_names[]; // by the call's index; of calls.c

// To be called when this library is relocated, after its data. The names must be in its symbol
// table. If that cannot be written to, all are shown.
void gdr_mpi_show_names(const struct gdr_mpi_name* names, size_t count);

// Whether the MPI library of the process has PMPI_X; true while there is no MPI library. Any
// thread.
int gdr_mpi_shows(const char* name);

#pragma GCC visibility pop
