! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! mpi_fortran host|cuda|random SEED [CALL]...: MPI's calls in the binding of mpi_binding.f90, each in all its forms, on few and on many
! integers of host or GPU memory, or each rank's each buffer on either at random; all ranks, every element checked; without a CALL
! all that this MPI can do in host memory. Exits with 1 when data are wrong, with 77 without a GPU.
program mpi_fortran
  use calls
  use collectives
  use completions
  use files
  use messages
  use neighbours
  use one_sided
  use partitions
  use types
#include "mpi_binding.f90"
#include "mpi_driver.f90"
  integer, parameter :: few = 16, many = 20000
  type(c_ptr) :: context
  character(32) :: argument
  character(MPI_MAX_LIBRARY_VERSION_STRING) :: version
  integer :: seed, seed_words, length, made, i

  call get_command_argument(1, memory)
  call get_command_argument(2, argument)
  read (argument, *) seed
  if (memory /= "host") then
    if (init(0) /= 0) stop 77
    if (retain(context, 0) /= 0 .or. set_current(context) /= 0) stop 1
  end if
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Get_library_version(version, length, ierror)
  mpich = index(version, "MPICH") > 0
  previous = mod(rank + ranks - 1, ranks)
  next = mod(rank + 1, ranks)
  call random_seed(size=seed_words)
  call random_seed(put=[(seed + 1000 * rank + i, i = 1, seed_words)])
  call allocate_buffers(many)

  made = 0
  n = few
  call make_all()
  n = many
  call make_all()
  if (rank == 0) print '(i0, a)', made, " calls"
  call MPI_Finalize(ierror)
  if (wrong > 0) stop 1

contains

  subroutine make_all()
    call make(message_rows())
    call make(completion_rows())
    call make(partitioned_rows())
    call make(collective_rows())
    call make(neighbour_rows())
    call make(one_sided_rows())
    call make(file_rows())
    call make(type_rows())
  end subroutine

  subroutine make(rows)
    type(row), intent(in) :: rows(:)
    integer :: i, j, before
    do i = 1, size(rows)
      do j = 1, len_trim(rows(i)%forms)
        if (.not. chosen(rows(i)%name) .or. is_defective(rows(i)%name, rows(i)%forms(j:j))) cycle
        call MPI_Barrier(MPI_COMM_WORLD, ierror) ! where a rank dies now, it dies of this call
        if (rank == 0) print '(4a)', "call: ", trim(rows(i)%name), ", ", rows(i)%forms(j:j)
        flush (6)
        before = wrong
        call begin()
        call rows(i)%make(rows(i)%forms(j:j))
        call verify()
        if (wrong > before) print '(a, i0, 4a)', "rank ", rank, ": FAILED ", trim(rows(i)%name), ", ", rows(i)%forms(j:j)
        if (n == few) made = made + 1
      end do
    end do
  end subroutine

  logical function chosen(name)
    character(*), intent(in) :: name
    integer :: i
    chosen = command_argument_count() == 2
    do i = 3, command_argument_count()
      call get_command_argument(i, argument)
      if (argument == name) chosen = .true.
    end do
  end function

  ! In host memory and without the layer, too. MPICH 4.0.2: MPI_Scatter_init ends the program in MPI_Wait, from four ranks on;
  ! MPI_Gather_init and MPI_Allgather_init send few data as they were when they were called, not as they are when they are started;
  ! MPI_Neighbor_alltoallw of mpi_f08 takes a Cartesian communicator for one without neighbours. Open MPI 4.1.4:
  ! MPI_Neighbor_alltoallw of one rank; MPI_Request_get_status with MPI_STATUS_IGNORE tells of no request that it is complete.
  logical function is_defective(name, form)
    character(*), intent(in) :: name
    character, intent(in) :: form
    is_defective = .false.
    if (mpich) then
      select case (name)
      case ("Scatter", "Scatterv", "Scatter in place", "Gather", "Gatherv", "Gather in place", "Allgather", "Allgather in place")
        is_defective = form == "p"
      case ("Neighbor_alltoallw")
        is_defective = BINDING == 3
      end select
    else
      is_defective = (ranks == 1 .and. name == "Neighbor_alltoallw") .or. (name == "Request_get_status" .and. form == "i")
    end if
  end function
end program
