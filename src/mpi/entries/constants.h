// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Constants of the two families of MPI libraries that the module and what is preloaded both need:
// the others are in mpi/library/abi.hpp, and the same test compares them with each mpi.h.
#pragma once

enum { GDR_OPEN_MPI_ERR_OTHER = 16, GDR_MPICH_ERR_OTHER = 15 }; // MPI_ERR_OTHER
