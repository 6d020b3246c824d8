/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
 *
 * Open MPI's mpi-ext.h for programs that ask at compile time whether MPI takes GPU memory. Open
 * MPI's own file says no for a library built without CUDA; with libgdr_mpi.so.0 the answer is
 * yes. The compiler must find this file before Open MPI's: mpicc -I/usr/include/ucx-gdr/mpi.
 * MPIX_Query_cuda_support() tells whether it is so in the process. */
#ifndef GDR_MPI_EXT_H
#define GDR_MPI_EXT_H

#include_next <mpi-ext.h>

#undef MPIX_CUDA_AWARE_SUPPORT
#define MPIX_CUDA_AWARE_SUPPORT 1

#endif
