! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Reductions, also of Fortran's own types, exchanges, messages and packing, on GPU memory, in the binding of mpi_binding.f90.
program mpi_fortran
#include "mpi_binding.f90"
#include "mpi_driver.f90"
  integer, parameter :: n = 1000
  integer(c_size_t), parameter :: bytes = 4 * n
  type(c_ptr) :: context, out_address, in_address
  integer(c_int), target :: host(n)
  integer(c_int), pointer :: out(:), in(:)
  logical, pointer :: flags(:), all_flags(:)
  integer :: rank, ranks, before, after, position, ierror, i
#if BINDING == 3
  type(MPI_Request) :: request, requests(2)
#else
  integer :: request, requests(2)
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

  before = mod(rank + ranks - 1, ranks)
  after = mod(rank + 1, ranks)
  call MPI_Scan(out, in, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call verify(in_address, [((rank + 1) * (ranks - 1 + i), i = 1, n)], "MPI_Scan")
  call MPI_Sendrecv_replace(in, n, MPI_INTEGER, after, 7, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call verify(in_address, [((before + 1) * (ranks - 1 + i), i = 1, n)], "MPI_Sendrecv_replace")
  call MPI_Irecv(out, n, MPI_INTEGER, after, 8, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_Isend(in, n, MPI_INTEGER, before, 8, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
  call verify(out_address, [((rank + 1) * (ranks - 1 + i), i = 1, n)], "MPI_Irecv")
  call MPI_Bcast(out, n, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierror)
  call verify(out_address, [(ranks * (ranks - 1 + i), i = 1, n)], "MPI_Bcast")
  call MPI_Allgather(in, n / ranks, MPI_INTEGER, out, n / ranks, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call verify(out_address, [((mod((i - 1) / (n / ranks) + ranks - 1, ranks) + 1) * (ranks + mod(i - 1, n / ranks)), i = 1, n)], &
    "MPI_Allgather")
  position = 0
  call MPI_Pack(out, n, MPI_INTEGER, in, int(bytes), position, MPI_COMM_WORLD, ierror)
  if (copy(c_loc(host), out_address, bytes) /= 0) stop 1
  call verify(in_address, [(host(i), i = 1, n)], "MPI_Pack")

  ! Pairs with the lower rank where values are equal; those that are true on an odd rank, and only there.
  host = [(merge(i, rank, mod(i, 2) == 1), i = 1, n)]
  if (copy(out_address, c_loc(host), bytes) /= 0) stop 1
  call MPI_Allreduce(out, in, n / 2, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
  call verify(in_address, [(merge(i, 0, mod(i, 2) == 1), i = 1, n)], "MPI_2INTEGER")
  call c_f_pointer(out_address, flags, [n])
  call c_f_pointer(in_address, all_flags, [n])
  host = transfer([(mod(i, 3) == 0 .and. mod(rank, 2) == 1, i = 1, n)], host)
  if (copy(out_address, c_loc(host), bytes) /= 0) stop 1
  call MPI_Allreduce(flags, all_flags, n, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
  call verify(in_address, transfer([(mod(i, 3) == 0 .and. ranks > 1, i = 1, n)], host), "MPI_LOGICAL")
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
