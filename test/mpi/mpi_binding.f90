! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! How a program or module begins in the binding that the preprocessor is told: mpif.h (BINDING 1), use mpi (2), use mpi_f08 (3).
! HANDLE(MPI_Request) is the type of a request in it, and so on. MPIX is defined where persistent collective calls are Open MPI 4's.
  use iso_c_binding
#if BINDING == 3
  use mpi_f08
#ifdef MPIX
  use mpi_f08_ext
#endif
#define HANDLE(kind) type(kind)
#else
#if BINDING == 2
  use mpi
#endif
#define HANDLE(kind) integer
#endif
  implicit none
#if BINDING == 1
  include 'mpif.h'
#endif
