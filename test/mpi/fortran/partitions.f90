! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Partitioned messages, from each rank to the next one.
module partitions
  use calls
#include "mpi_binding.f90"
  private
  public :: partitioned_rows

contains

  function partitioned_rows() result(rows)
    type(row), allocatable :: rows(:)
#ifdef OPEN_MPI_4
    allocate (rows(0))
#else
    rows = [ &
        row("Pready", "p", by_one), &
        row("Pready_range", "p", by_range), &
        row("Pready_list", "p", by_list), &
        row("Parrived", "p", seen_to_arrive)]
#endif
  end function

#ifndef OPEN_MPI_4
  subroutine by_one(form)
    character, intent(in) :: form
    call exchange("one", .false.)
  end subroutine

  subroutine by_range(form)
    character, intent(in) :: form
    call exchange("range", .false.)
  end subroutine

  subroutine by_list(form)
    character, intent(in) :: form
    call exchange("list", .false.)
  end subroutine

  subroutine seen_to_arrive(form)
    character, intent(in) :: form
    call exchange("one", .true.)
  end subroutine

  ! Twice, in four partitions, which are written when the message has been started, and are ready in another order.
  subroutine exchange(ready_by, asks)
    character(*), intent(in) :: ready_by
    logical, intent(in) :: asks
    integer, parameter :: sent = 1, received = 2, number = 4
    integer(MPI_COUNT_KIND) :: length
    HANDLE(MPI_Request) :: requests(2)
    integer :: i, turn
    length = n / number
    call MPI_Psend_init(out%at, number, length, MPI_INTEGER, next, tag, MPI_COMM_WORLD, MPI_INFO_NULL, requests(sent), ierror)
    call MPI_Precv_init(in%at, number, length, MPI_INTEGER, previous, tag, MPI_COMM_WORLD, MPI_INFO_NULL, requests(received), ierror)
    do turn = 1, 2
      if (turn == 2) call refill()
      call set(out, of_more(rank, 1, size(out%want)))
      call MPI_Startall(2, requests, ierror)
      call set(out, content(rank, 1, size(out%want)))
      select case (ready_by)
      case ("one")
        do i = number - 1, 0, -1
          call MPI_Pready(i, requests(sent), ierror)
        end do
      case ("range")
        call MPI_Pready_range(2, 3, requests(sent), ierror)
        call MPI_Pready_range(0, 1, requests(sent), ierror)
      case ("list")
        call MPI_Pready_list(number, [3, 0, 2, 1], requests(sent), ierror)
      end select
      in%want(:n) = content(previous, 1, n)
      do i = 0, number - 1
        if (asks) call await(i, int(length), requests(received))
      end do
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    end do
    do i = 1, 2
      call MPI_Request_free(requests(i), ierror)
    end do
  end subroutine

  ! That partition, which is there as soon as MPI tells of it; MPICH 4.0.2's module mpi takes its LOGICAL for an INTEGER.
  subroutine await(partition, length, message)
    integer, intent(in) :: partition, length
    HANDLE(MPI_Request), intent(in) :: message
#ifdef INTEGER_FLAG
    integer :: arrived
#else
    logical :: arrived
#endif
    arrived = transfer(.false., arrived)
    do while (.not. transfer(arrived, .true.))
      call MPI_Parrived(message, partition, arrived, ierror)
      if (.not. transfer(arrived, .true.)) call let_others_run()
    end do
    call expect_there(partition * length + 1, (partition + 1) * length)
  end subroutine
#endif
end module
