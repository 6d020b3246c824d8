! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Calls that complete requests, several at a time: each rank sends two messages to itself, which are always staged, and between these
! one to the next rank, which MPI may be handed as it is; all of other tags and sizes, and shorter than there is room for. Forms:
! "n", of non-blocking requests, whose statuses are looked at, "i", the same, and the statuses are ignored, "p", of persistent ones,
! which are started together.
module completions
  use calls
#include "mpi_binding.f90"
  private
  public :: completion_rows

  ! Receives, then none, then the sends.
  integer, parameter :: messages = 3, none = messages + 1, length = 2 * messages + 1
  HANDLE(MPI_Request) :: requests(length)
  STATUSES(statuses, length)
  logical :: done(length)
  integer :: rounds = 0
  integer :: first_index, undefined ! as this MPI tells of them

contains

  function completion_rows() result(rows)
    type(row), allocatable :: rows(:)
    call look_at_indices()
    rows = [ &
        row("Wait", "nip", wait_each), &
        row("Waitall", "nip", wait_all), &
        row("Waitany", "nip", wait_any), &
        row("Waitsome", "nip", wait_some), &
        row("Test", "nip", test_each), &
        row("Testall", "nip", test_all), &
        row("Testany", "nip", test_any), &
        row("Testsome", "nip", test_some), &
        row("Request_get_status", "nip", get_status), &
        row("Cancel", "np", cancel)]
  end function

  ! In host memory and without the layer, too, MPICH 4.0.2 counts from 0 in mpi_f08, and takes MPI_UNDEFINED for an index, of
  ! which it makes the next one, in the other bindings.
  subroutine look_at_indices()
    call MPI_Irecv(first_index, COUNT(0), MPI_INTEGER, MPI_PROC_NULL, tag, MPI_COMM_SELF, requests(1), ierror)
    call MPI_Waitany(1, requests, first_index, MPI_STATUS_IGNORE, ierror)
    call MPI_Waitany(1, requests, undefined, MPI_STATUS_IGNORE, ierror)
    if (.not. mpich .and. (first_index /= 1 .or. undefined /= MPI_UNDEFINED)) call fail("indices are other ones")
  end subroutine

  ! Whether there is a round to complete; what the latest has to have left is looked at first.
  logical function under_way(form)
    character, intent(in) :: form
    integer :: i
    if (rounds > 0 .and. .not. all(done)) call fail("a request is not told of")
    under_way = rounds < merge(2, 1, form == "p")
    if (under_way) then
      if (rounds == 0) then
        call make_requests(form)
      else
        call refill()
      end if
      if (form == "p") call start_all()
      done = .false.
      done(none) = .true.
      rounds = rounds + 1
    else
      do i = 1, length
        if (form == "p" .and. i /= none) call MPI_Request_free(requests(i), ierror)
        if (requests(i) /= MPI_REQUEST_NULL) call fail("a request is left")
      end do
      rounds = 0
    end if
  end function

  subroutine make_requests(form)
    character, intent(in) :: form
    integer :: i
    requests(none) = MPI_REQUEST_NULL
    do i = 1, messages
#define FROM in%at(first_of(i):), COUNT(n), MPI_INTEGER, source_of(i), tag + i, MPI_COMM_WORLD
#define TO out%at(first_of(i):), COUNT(size_of(i)), MPI_INTEGER, merge(next, rank, i == 2), tag + i, MPI_COMM_WORLD
      if (form == "p") then
        call MPI_Recv_init(FROM, requests(i), ierror)
        call MPI_Send_init(TO, requests(none + i), ierror)
      else
        call MPI_Irecv(FROM, requests(i), ierror)
        call MPI_Isend(TO, requests(none + i), ierror)
      end if
    end do
  end subroutine

  ! MPI_REQUEST_NULL cannot be started.
  subroutine start_all()
    call MPI_Startall(messages, requests, ierror)
    call MPI_Startall(messages, requests(none + 1:), ierror)
  end subroutine

  pure integer function first_of(message)
    integer, intent(in) :: message
    first_of = (message - 1) * n + 1
  end function

  pure integer function size_of(message)
    integer, intent(in) :: message
    size_of = n - none + message
  end function

  pure integer function source_of(message)
    integer, intent(in) :: message
    source_of = merge(previous, rank, message == 2)
  end function

  ! MPI tells of that request, in that status where it is given, that it is complete: so its message is there.
  subroutine complete(i, form, status)
    integer, intent(in) :: i, status
    character, intent(in) :: form
    integer :: first, last
    if (i < 1 .or. i > length) then
      call fail("an index is none of a request")
      return
    end if
    if (done(i) .and. i /= none) call fail("a request is told of twice")
    done(i) = .true.
    if (i < none) then
      first = first_of(i)
      last = first + size_of(i) - 1
      in%want(first:last) = content(source_of(i), first, size_of(i))
      call expect_there(first, last)
      if (form /= "i") call expect_status(status, source_of(i), tag + i, size_of(i))
    else if (i == none .and. form /= "i") then
      call expect_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0)
    end if
  end subroutine

  subroutine expect_status(i, source, its_tag, elements)
    integer, intent(in) :: i, source, its_tag, elements
    integer :: told
    call MPI_Get_count(STATUS_AT(statuses, i), MPI_INTEGER, told, ierror)
    if (FIELD(statuses, i, MPI_SOURCE) /= source) call fail("a status tells of another source")
    if (FIELD(statuses, i, MPI_TAG) /= its_tag) call fail("a status tells of another tag")
    if (told /= elements) call fail("a status tells of another count")
  end subroutine

  subroutine complete_each(form)
    character, intent(in) :: form
    integer :: i
    do i = 1, length
      call complete(i, form, i)
    end do
  end subroutine

  ! By MPI's indices, and the statuses in the same order.
  subroutine complete_some(indices, form)
    integer, intent(in) :: indices(:)
    character, intent(in) :: form
    integer :: i
    do i = 1, size(indices)
      call complete(indices(i) - first_index + 1, form, i)
    end do
  end subroutine

  subroutine wait_each(form)
    character, intent(in) :: form
    integer :: i
    do while (under_way(form))
      do i = 1, length
#define NAME Wait
#define ARGUMENTS requests(i)
#include "fortran/completion_forms.f90"
        call complete(i, form, 1)
      end do
    end do
  end subroutine

  subroutine wait_all(form)
    character, intent(in) :: form
    do while (under_way(form))
#define NAME Waitall
#define ARGUMENTS length, requests
#define SEVERAL
#include "fortran/completion_forms.f90"
      call complete_each(form)
    end do
  end subroutine

  subroutine wait_any(form)
    character, intent(in) :: form
    integer :: i
    do while (under_way(form))
      do
#define NAME Waitany
#define ARGUMENTS length, requests, i
#include "fortran/completion_forms.f90"
        if (i == undefined) exit
        call complete_some([i], form)
      end do
    end do
  end subroutine

  subroutine wait_some(form)
    character, intent(in) :: form
    integer :: some, indices(length)
    do while (under_way(form))
      do
#define NAME Waitsome
#define ARGUMENTS length, requests, some, indices
#define SEVERAL
#include "fortran/completion_forms.f90"
        if (some == MPI_UNDEFINED) exit
        if (some == 0) call fail("none is waited for")
        call complete_some(indices(:some), form)
      end do
    end do
  end subroutine

  subroutine test_each(form)
    character, intent(in) :: form
    logical :: flag
    integer :: i
    do while (under_way(form))
      do i = 1, length
        flag = .false.
        do while (.not. flag)
#define NAME Test
#define ARGUMENTS requests(i), flag
#include "fortran/completion_forms.f90"
          if (.not. flag) call let_others_run()
        end do
        call complete(i, form, 1)
      end do
    end do
  end subroutine

  subroutine test_all(form)
    character, intent(in) :: form
    logical :: flag
    do while (under_way(form))
      flag = .false.
      do while (.not. flag)
#define NAME Testall
#define ARGUMENTS length, requests, flag
#define SEVERAL
#include "fortran/completion_forms.f90"
        if (.not. flag) call let_others_run()
      end do
      call complete_each(form)
    end do
  end subroutine

  subroutine test_any(form)
    character, intent(in) :: form
    logical :: flag
    integer :: i
    do while (under_way(form))
      do
#define NAME Testany
#define ARGUMENTS length, requests, i, flag
#include "fortran/completion_forms.f90"
        if (flag .and. i == undefined) exit
        if (flag) call complete_some([i], form)
        if (.not. flag .and. i /= undefined) call fail("an index tells of nothing")
        if (.not. flag) call let_others_run()
      end do
    end do
  end subroutine

  subroutine test_some(form)
    character, intent(in) :: form
    integer :: some, indices(length)
    do while (under_way(form))
      do
#define NAME Testsome
#define ARGUMENTS length, requests, some, indices
#define SEVERAL
#include "fortran/completion_forms.f90"
        if (some == MPI_UNDEFINED) exit
        call complete_some(indices(:some), form)
        if (some == 0) call let_others_run()
      end do
    end do
  end subroutine

  ! The requests are left to be waited for.
  subroutine get_status(form)
    character, intent(in) :: form
    logical :: flag
    integer :: i
    do while (under_way(form))
      do i = 1, length
        flag = .false.
        do while (.not. flag)
#define NAME Request_get_status
#define ARGUMENTS requests(i), flag
#include "fortran/completion_forms.f90"
          if (.not. flag) call let_others_run()
        end do
        call complete(i, form, 1)
        call MPI_Wait(requests(i), MPI_STATUS_IGNORE, ierror)
      end do
    end do
  end subroutine

  ! A receive that nothing is sent to, by the rank itself, leaves its buffer as it was; a persistent one can be started again.
  subroutine cancel(form)
    character, intent(in) :: form
    logical :: flag
    if (form == "p") then
      call MPI_Recv_init(in%at, COUNT(n), MPI_INTEGER, rank, tag, MPI_COMM_WORLD, request, ierror)
      call MPI_Start(request, ierror)
    else
      call MPI_Irecv(in%at, COUNT(n), MPI_INTEGER, rank, tag, MPI_COMM_WORLD, request, ierror)
    end if
    call MPI_Cancel(request, ierror)
    call MPI_Wait(request, STATUS_AT(statuses, 1), ierror)
    call MPI_Test_cancelled(STATUS_AT(statuses, 1), flag, ierror)
    if (.not. flag) call fail("a request is not cancelled")
    if (form == "p") then
      call MPI_Start(request, ierror)
      call MPI_Send(out%at, COUNT(n), MPI_INTEGER, rank, tag, MPI_COMM_WORLD, ierror)
      call wait()
      call MPI_Request_free(request, ierror)
      in%want(:n) = content(rank, 1, n)
    end if
  end subroutine
end module
