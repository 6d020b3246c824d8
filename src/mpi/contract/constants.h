// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Constants of the two families of MPI libraries that both the module and the preloaded library
// need. The others are in the module's abi.hpp; the same test compares all with each mpi.h.
#pragma once

enum { GDR_OPEN_MPI_ERR_OTHER = 16, GDR_MPICH_ERR_OTHER = 15 }; // MPI_ERR_OTHER
