! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! How a program begins in the binding that the preprocessor is told: mpif.h (BINDING 1), use mpi (2), use mpi_f08 (3).
  use iso_c_binding
#if BINDING == 3
  use mpi_f08
#elif BINDING == 2
  use mpi
#endif
  implicit none
#if BINDING == 1
  include 'mpif.h'
#endif
