// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/entries/functions.h"

#include "mpi/contract/constants.h"
#include "mpi/entries/entry.h"
#include "preload/objects.h"

#include <stdio.h>
#include <string.h>

GDR_MPI_OF_THREAD const void* gdr_mpi_caller = NULL;

RARE function* gdr_mpi_find_own(unsigned index)
{
    function* const found = (function*)gdr_function_for(gdr_mpi_caller, gdr_mpi_names[index].name);
    keep(&gdr_mpi_own[index], found);
    const struct gdr_mpi_service* const by = service();
    if (found && by) {
        by->first_called(found);
    }
    return found;
}

RARE function* gdr_mpi_find_outer(unsigned index)
{
    const void* const by = gdr_mpi_caller; // what is called here may call MPI
    function* const in_library = gdr_mpi_find_own(index);
    if (!in_library) {
        return NULL;
    }
    function* next = (function*)gdr_function_for(by, gdr_mpi_names[index].name + 1);
    if (!next || gdr_object_of((const void*)next) == gdr_object_of((const void*)in_library)) {
        next = in_library;
    }
    keep(&gdr_mpi_outer[index], next);
    return next;
}

// A caller bound the name before it was known that the MPI library lacks it.
RARE int gdr_mpi_lacks(unsigned index)
{
    fprintf(stderr, "gdr: the MPI library of this program has no %s\n",
            gdr_mpi_names[index].name + 1);
    return gdr_function_for(gdr_mpi_caller, "ompi_mpi_comm_world") ? GDR_OPEN_MPI_ERR_OTHER
                                                                   : GDR_MPICH_ERR_OTHER;
}

RARE int gdr_mpi_is_of_library(const void* by, function* in_library)
{
    struct gdr_object object;
    if (!gdr_find_object(by, &object)) {
        return 0;
    }
    const word address = (word)in_library;
    const char* const slash = strrchr(object.name, '/');
    return (address >= object.start && address < object.end) ||
           (slash && strncmp(slash, "/mca_", strlen("/mca_")) == 0);
}

EXPORT int gdr_mpi_heard(const char* name)
{
    for (unsigned i = 0; i < gdr_mpi_calls; ++i) {
        if (strcmp(gdr_mpi_names[i].name + 1, name) == 0) {
            return load(&gdr_mpi_own[i]) != NULL;
        }
    }
    return 1; // there is no entry for it
}
