// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which names this library shows to the dynamic linker: those that the MPI library of the process
// has, too. Programs look for calls of newer MPIs at run time, by weak references as mpi4py does or
// by dlsym, and do without those that they do not find.
//
// Where the MPI library is loaded when this library is relocated (a program that is linked with it)
// the names that it lacks are taken out of this library's symbol table. In other programs all names
// become indirect functions (STT_GNU_IFUNC): the dynamic linker then asks what they are when it
// looks one up, as it does when it relocates the objects that come with the MPI library.
#pragma once

#include "mpi/entries/service.h"

#include <stddef.h>

typedef gdr_mpi_function* gdr_mpi_choose(void); // as the dynamic linker calls it

// A name's function, and what the dynamic linker calls to learn it: NULL where the name is not
// shown.
struct gdr_mpi_symbol {
    gdr_mpi_function* function;
    gdr_mpi_function* (*choose)(void);
};

struct gdr_mpi_name {
    const char* name;                 // PMPI_X
    struct gdr_mpi_symbol symbols[2]; // PMPI_X and MPI_X
};

enum { GDR_MPI_MOST_NAMES = 512 };

// As this library is relocated, after its data. The names have to be in its symbol table; where
// that cannot be written to all are shown.
void gdr_mpi_show_names(const struct gdr_mpi_name* names, size_t count);

// Whether the MPI library of the process has PMPI_X; true while there is none. Any thread.
int gdr_mpi_shows(const char* name);
