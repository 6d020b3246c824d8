// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Constants of the two families of MPI libraries that the module and what is preloaded both need:
// the others are in mpi/library/abi.hpp, and the same test compares them with each mpi.h.
#pragma once

enum gdr_mpi_of_all { GDR_MPI_ERR_COUNT = 2 };

enum gdr_mpi_of_open_mpi {
    GDR_OPEN_MPI_IN_PLACE = 1,
    GDR_OPEN_MPI_ROOT = -4,
    GDR_OPEN_MPI_ERR_OTHER = 16,
    GDR_OPEN_MPI_CART = 1,
    GDR_OPEN_MPI_GRAPH = 2
};

enum gdr_mpi_of_mpich {
    GDR_MPICH_IN_PLACE = -1,
    GDR_MPICH_ROOT = -3,
    GDR_MPICH_ERR_OTHER = 15,
    GDR_MPICH_CART = 2,
    GDR_MPICH_GRAPH = 1
};
