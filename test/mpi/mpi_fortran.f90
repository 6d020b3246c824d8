! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! A reduction, in place and not, and an exchange, on GPU memory, in the binding of mpi_binding.f90.
program mpi_fortran
#include "mpi_binding.f90"
#include "mpi_driver.f90"
  integer, parameter :: n = 1000
  integer(c_size_t), parameter :: bytes = 4 * n
  type(c_ptr) :: context, out_address, in_address
  integer(c_int), target :: host(n)
  integer(c_int), pointer :: out(:), in(:)
  integer :: rank, ranks, ierror, i
#if BINDING == 3
  type(MPI_Request) :: request
#else
  integer :: request
#endif

  if (init(0) /= 0) stop 77
  if (retain(context, 0) /= 0 .or. set_current(context) /= 0) stop 1
  if (allocate_on_gpu(out_address, bytes) /= 0 .or. allocate_on_gpu(in_address, bytes) /= 0) stop 1
  call c_f_pointer(out_address, out, [n])
  call c_f_pointer(in_address, in, [n])
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)

  host = [(rank + i, i = 1, n)]
  if (copy(out_address, c_loc(host), bytes) /= 0) stop 1
  call MPI_Allreduce(out, in, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call verify(in_address, [(ranks * (ranks - 1) / 2 + ranks * i, i = 1, n)], "MPI_Allreduce")
  call MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
  call verify(out_address, [(ranks - 1 + i, i = 1, n)], "MPI_IN_PLACE")
  call MPI_Ialltoall(out, n / ranks, MPI_INTEGER, in, n / ranks, MPI_INTEGER, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call verify(in_address, [(ranks - 1 + rank * (n / ranks) + mod(i - 1, n / ranks) + 1, i = 1, n)], "MPI_Ialltoall")
  call MPI_Finalize(ierror)
  print '(a, i0, a)', "rank ", rank, ": ok"

contains

  subroutine verify(address, expected, what)
    type(c_ptr) :: address
    integer, intent(in) :: expected(n)
    character(*), intent(in) :: what
    if (copy(c_loc(host), address, bytes) /= 0) stop 1
    if (any(host /= expected)) then
      print '(a, i0, 2a)', "rank ", rank, ": FAILED ", what
      stop 1
    end if
  end subroutine
end program
