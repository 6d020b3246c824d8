/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
 *
 * Open MPI's mpi-ext.h for programs that ask at compile time whether MPI takes GPU memory: that of
 * a library built without CUDA says no, where it does with libgdr_mpi.so.0. To be found before Open
 * MPI's own: mpicc -I/usr/include/ucx-gdr/mpi. Whether it is so in the process tells
 * MPIX_Query_cuda_support(). */
#ifndef GDR_MPI_EXT_H
#define GDR_MPI_EXT_H

#include_next <mpi-ext.h>

#undef MPIX_CUDA_AWARE_SUPPORT
#define MPIX_CUDA_AWARE_SUPPORT 1

#endif
