// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The names are shown when this library is relocated: the dynamic linker resolves an indirect
// function in the library itself after everything else.
#include "mpi/entries/functions.h"
#include "mpi/entries/names.h"

static void names_are_shown(void) {}
static gdr_mpi_function* show_names(void)
{
    gdr_mpi_show_names(gdr_mpi_names, gdr_mpi_calls);
    return names_are_shown;
}
static void relocated(void) __attribute__((ifunc("show_names")));
__attribute__((constructor)) static void after_relocation(void)
{
    relocated();
}
