! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! How a program or module begins in the binding that the preprocessor is told: mpif.h (BINDING 1), use mpi (2), use mpi_f08 (3).
! HANDLE(MPI_Request) is the type of a request in it, and so on; STATUSES declares statuses, STATUS_AT is one of them, and FIELD
! of that. COUNT is a count as MPI takes it, and COUNT_KIND and DISPLACEMENT_KIND are what those in arrays have: with LARGE (of
! BINDING 3) those of the large forms. OPEN_MPI_4 is defined where persistent collective calls begin with MPIX_, and nothing else
! is MPI 4's.
  use iso_c_binding
#if BINDING == 3
  use mpi_f08
#ifdef OPEN_MPI_4
  use mpi_f08_ext
#endif
#define HANDLE(kind) type(kind)
#define STATUSES(name, number) type(MPI_Status) :: name(number)
#define STATUS_AT(name, i) name(i)
#define FIELD(name, i, field) name(i)%field
#else
#if BINDING == 2
  use mpi
#endif
#define HANDLE(kind) integer
#define STATUSES(name, number) integer :: name(MPI_STATUS_SIZE, number)
#define STATUS_AT(name, i) name(:, i)
#define FIELD(name, i, field) name(field, i)
#endif
#ifdef LARGE
#define COUNT_KIND MPI_COUNT_KIND
#define DISPLACEMENT_KIND MPI_ADDRESS_KIND
#else
#define COUNT_KIND kind(0)
#define DISPLACEMENT_KIND kind(0)
#endif
#define COUNT(value) int(value, COUNT_KIND)
  implicit none
#if BINDING == 1
  include 'mpif.h'
#endif
