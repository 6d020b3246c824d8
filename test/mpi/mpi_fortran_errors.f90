! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! mpi_fortran_errors host|cuda CASE...: erroneous calls in the binding of mpi_binding.f90, with MPI_ERRORS_RETURN and
! buffers in host or GPU memory. For each, each rank prints a line like mpi_errors, which has error handlers of its own.
! mpi_fortran_errors --list names the cases.
program mpi_fortran_errors
#include "mpi_binding.f90"
#include "mpi_driver.f90"
  integer, parameter :: n = 8192
  integer(c_size_t), parameter :: bytes = 4 * n
  character(24), parameter :: cases(*) = [character(24) :: &
      "send_count", "send_no_type", "send_rank", "send_tag", "isend_rank", "recv_count", "recv_no_type", "recv_truncated", &
      "recv_few_truncated", "irecv_truncated", "waitall_truncated", "start_nothing", "sendrecv_replace_count", &
      "bcast_root", "bcast_count", "allreduce_no_type", "allreduce_no_op", "allreduce_op", "reduce_root", &
      "iallreduce_no_op", "gather_root", "allgather_no_type", "alltoallv_counts", "reduce_local_count", "pack_beyond", &
      "unpack_beyond", "put_rank", "get_count", "put_no_window", "accumulate_no_op", "get_accumulate_no_type", &
      "fetch_and_op_type", "compare_and_swap_rank", "rput_rank", "rget_accumulate_rank", "write_closed"]
  type(c_ptr) :: context, out_address, in_address
  integer(c_int), pointer :: out(:), in(:)
  integer(c_int), target :: ones(n), twos(n), now(n), host_out(n), host_in(n), window_memory(n)
  integer :: rank, ranks, previous, next, ierror, errors(3), failed, i, j
  character(24) :: name
  logical :: on_gpu
  HANDLE(MPI_Datatype) :: column, few
  HANDLE(MPI_Win) :: window

  call get_command_argument(1, name)
  if (name == "--list") then
    do i = 1, size(cases)
      print '(a)', trim(cases(i))
    end do
    stop
  end if
  on_gpu = name == "cuda"
  out_address = c_loc(host_out)
  in_address = c_loc(host_in)
  if (on_gpu) then
    if (init(0) /= 0) stop 77
    if (retain(context, 0) /= 0 .or. set_current(context) /= 0) stop 1
    if (allocate_on_gpu(out_address, bytes) /= 0 .or. allocate_on_gpu(in_address, bytes) /= 0) stop 1
  end if
  call c_f_pointer(out_address, out, [n])
  call c_f_pointer(in_address, in, [n])
  ones = 1
  twos = 2
  call MPI_Init(ierror)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  previous = mod(rank + ranks - 1, ranks)
  next = mod(rank + 1, ranks)
  call MPI_Type_vector(2000, 2, 4, MPI_INTEGER, column, ierror)
  call MPI_Type_commit(column, ierror)
  call MPI_Type_vector(10, 1, 2, MPI_INTEGER, few, ierror)
  call MPI_Type_commit(few, ierror)
  call MPI_Win_create(window_memory, int(bytes, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierror)
  call MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN, ierror)
  call MPI_Win_lock_all(0, window, ierror)

  do i = 2, command_argument_count()
    call get_command_argument(i, name)
    call set(out_address, ones)
    call set(in_address, twos)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (rank == 0) print '(2a)', "case: ", trim(name)
    flush (6)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    errors = MPI_SUCCESS
    call make(name)
    do j = 1, 3
      call MPI_Error_class(errors(j), errors(j), ierror)
    end do
    print '(2a, i0, a, i0, 2(",", i0), 4a)', trim(name), " rank=", rank, " classes=", errors, &
        " handlers=0 changed=", changed(), " then=", works()
    flush (6)
  end do

  call MPI_Win_unlock_all(window, ierror)
  call MPI_Win_free(window, ierror)
  call MPI_Finalize(ierror)

contains

  subroutine set(address, values)
    type(c_ptr) :: address
    integer(c_int), target, intent(in) :: values(n)
    call copy_any(address, c_loc(values))
  end subroutine

  subroutine get(values, address)
    type(c_ptr) :: address
    integer(c_int), target :: values(n)
    call copy_any(c_loc(values), address)
  end subroutine

  subroutine copy_any(to, from)
    type(c_ptr), intent(in) :: to, from
    integer(c_int), pointer :: to_values(:), from_values(:)
    if (on_gpu) then
      if (copy(to, from, bytes) /= 0) stop 1
    else
      call c_f_pointer(to, to_values, [n])
      call c_f_pointer(from, from_values, [n])
      to_values = from_values
    end if
  end subroutine

  character(8) function changed()
    changed = "none"
    call get(now, out_address)
    if (any(now /= 1)) changed = "+out"
    call get(now, in_address)
    if (any(now /= 2)) changed = trim(merge("    ", changed(:4), changed(:4) == "none")) // "+in"
  end function

  character(5) function works()
    call set(out_address, [(rank, j = 1, n)])
    call set(in_address, twos - 3)
    call MPI_Sendrecv(out, 1, column, next, 1, in, 1, column, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call get(now, in_address)
    works = merge("right", "wrong", count(now == previous) == 4000 .and. ierror == MPI_SUCCESS)
    call MPI_Allreduce(out, in, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    call get(now, in_address)
    if (ierror /= MPI_SUCCESS .or. any(now /= ranks * (ranks - 1) / 2)) works = "wrong"
  end function

  ! So many integers to the next rank.
  subroutine send(numbers, tag)
    integer, intent(in) :: numbers, tag
    HANDLE(MPI_Request) :: request
    call MPI_Isend(ones, numbers, MPI_INTEGER, next, tag, MPI_COMM_WORLD, request, ierror)
    call MPI_Request_free(request, ierror)
  end subroutine

  ! The case of that name: its errors.
  subroutine make(name)
    character(*), intent(in) :: name
    HANDLE(MPI_Request) :: request, requests(2)
    integer :: at, counts(ranks), places(ranks)
    integer(MPI_ADDRESS_KIND), parameter :: nowhere = 0
    request = MPI_REQUEST_NULL
    at = 0
    counts = -1
    places = 0
    select case (name)
    case ("send_count")
      call MPI_Send(out, -1, column, next, 1, MPI_COMM_WORLD, errors(1))
    case ("send_no_type")
      call MPI_Send(out, 1, MPI_DATATYPE_NULL, next, 1, MPI_COMM_WORLD, errors(1))
    case ("send_rank")
      call MPI_Send(out, 1, column, ranks, 1, MPI_COMM_WORLD, errors(1))
    case ("send_tag")
      call MPI_Send(out, 1, column, next, -7, MPI_COMM_WORLD, errors(1))
    case ("isend_rank")
      call MPI_Isend(out, 1, few, ranks, 1, MPI_COMM_WORLD, request, errors(1))
    case ("recv_count")
      call MPI_Recv(in, -1, column, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, errors(1))
    case ("recv_no_type")
      call MPI_Recv(in, 1, MPI_DATATYPE_NULL, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, errors(1))
    case ("recv_truncated")
      call send(6000, 2)
      call MPI_Recv(in, 1, column, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, errors(1))
    case ("recv_few_truncated")
      call send(12, 2)
      call MPI_Recv(in, 1, few, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, errors(1))
    case ("irecv_truncated")
      call MPI_Irecv(in, 1, column, previous, 3, MPI_COMM_WORLD, request, errors(1))
      call send(6000, 3)
      call MPI_Wait(request, MPI_STATUS_IGNORE, errors(2))
      if (request /= MPI_REQUEST_NULL) errors(3) = MPI_ERR_OTHER
    case ("waitall_truncated")
      call MPI_Irecv(in, 1, few, previous, 3, MPI_COMM_WORLD, requests(1), ierror)
      call MPI_Irecv(in(4001), 1, few, previous, 4, MPI_COMM_WORLD, requests(2), ierror)
      call send(10, 4) ! which arrives first
      call send(12, 3)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, errors(1)) ! Open MPI leaves the handles as they were
    case ("start_nothing")
      call MPI_Irecv(in, 1, few, previous, 3, MPI_COMM_WORLD, requests(1), ierror)
      call MPI_Start(request, errors(1))
      call send(10, 3)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, errors(2))
    case ("sendrecv_replace_count")
      call MPI_Sendrecv_replace(in, -1, column, next, 5, previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, errors(1))
    case ("bcast_root")
      call MPI_Bcast(in, 1, column, ranks, MPI_COMM_WORLD, errors(1))
    case ("bcast_count")
      call MPI_Bcast(in, -1, MPI_INTEGER, 0, MPI_COMM_WORLD, errors(1))
    case ("allreduce_no_type")
      call MPI_Allreduce(out, in, 10, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD, errors(1))
    case ("allreduce_no_op")
      call MPI_Allreduce(out, in, 10, MPI_INTEGER, MPI_OP_NULL, MPI_COMM_WORLD, errors(1))
    case ("allreduce_op")
      call MPI_Allreduce(out, in, 10, MPI_REAL, MPI_BAND, MPI_COMM_WORLD, errors(1))
    case ("reduce_root")
      call MPI_Reduce(out, in, 10, MPI_INTEGER, MPI_SUM, ranks, MPI_COMM_WORLD, errors(1))
    case ("iallreduce_no_op")
      call MPI_Iallreduce(out, in, 10, MPI_INTEGER, MPI_OP_NULL, MPI_COMM_WORLD, request, errors(1))
    case ("gather_root")
      call MPI_Gather(out, 10, MPI_INTEGER, in, 10, MPI_INTEGER, ranks, MPI_COMM_WORLD, errors(1))
    case ("allgather_no_type")
      call MPI_Allgather(out, 10, MPI_DATATYPE_NULL, in, 10, MPI_INTEGER, MPI_COMM_WORLD, errors(1))
    case ("alltoallv_counts")
      call MPI_Alltoallv(out, counts, places, MPI_INTEGER, in, counts, places, MPI_INTEGER, MPI_COMM_WORLD, errors(1))
    case ("reduce_local_count")
      call MPI_Reduce_local(out, in, -10, MPI_INTEGER, MPI_SUM, errors(1))
    case ("pack_beyond")
      call MPI_Pack(out, 1, column, in, 40, at, MPI_COMM_WORLD, errors(1))
    case ("unpack_beyond")
      call MPI_Unpack(out, 40, at, in, 1, column, MPI_COMM_WORLD, errors(1))
    case ("put_rank")
      call MPI_Put(out, 1, column, ranks, nowhere, 1, column, window, errors(1))
    case ("get_count")
      call MPI_Get(in, -1, few, next, nowhere, 1, few, window, errors(1))
    case ("put_no_window")
      call MPI_Put(out, 1, column, next, nowhere, 1, column, MPI_WIN_NULL, errors(1))
    case ("accumulate_no_op")
      call MPI_Accumulate(out, 10, MPI_INTEGER, next, nowhere, 10, MPI_INTEGER, MPI_OP_NULL, window, errors(1))
    case ("get_accumulate_no_type")
      call MPI_Get_accumulate(out, 10, MPI_INTEGER, in, 10, MPI_DATATYPE_NULL, next, nowhere, 10, MPI_INTEGER, MPI_SUM, &
          window, errors(1))
    case ("fetch_and_op_type")
      call MPI_Fetch_and_op(out, in, MPI_DATATYPE_NULL, next, nowhere, MPI_SUM, window, errors(1))
    case ("compare_and_swap_rank")
      call MPI_Compare_and_swap(out, out(2), in, MPI_INTEGER, ranks, nowhere, window, errors(1))
    case ("rput_rank")
      call MPI_Rput(out, 1, few, ranks, nowhere, 1, few, window, request, errors(1))
    case ("rget_accumulate_rank")
      call MPI_Rget_accumulate(out, 10, MPI_INTEGER, in, 10, MPI_INTEGER, ranks, nowhere, 10, MPI_INTEGER, MPI_SUM, &
          window, request, errors(1))
    case ("write_closed")
      call MPI_File_write(MPI_FILE_NULL, out, 10, MPI_INTEGER, MPI_STATUS_IGNORE, errors(1))
    case default
      stop 2
    end select
  end subroutine
end program
