! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Calls that send and receive, each in all its forms: from each rank to the next one.
module messages
  use calls
#include "mpi_binding.f90"
  private
  public :: message_rows

  HANDLE(MPI_Request) :: other

  ! Of a call that sends and receives.
#ifdef OPEN_MPI_4
  character(*), parameter :: exchange_forms = "b"
#else
  character(*), parameter :: exchange_forms = "bn"
#endif

contains

  function message_rows() result(rows)
    type(row), allocatable :: rows(:)
    rows = [ &
        row("Send", "bnp", send), &
        row("Ssend", "bnp", ssend), &
        row("Rsend", "bnp", rsend), &
        row("Bsend", "bnp", bsend), &
        row("Recv", "bnp", receive), &
        row("Mrecv", "bn", receive_matched), &
        row("Recv of any source", "b", receive_any), &
        row("Sendrecv", exchange_forms, send_and_receive), &
        row("Sendrecv_replace", exchange_forms, send_and_replace)]
  end function

  subroutine start_other()
    call MPI_Start(other, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  ! From the previous rank.
  subroutine receive_in_background()
    call MPI_Recv_init(in%at, COUNT(n), MPI_INTEGER, previous, tag, MPI_COMM_WORLD, other, ierror)
  end subroutine

  subroutine send_in_background()
    call MPI_Send_init(out%at, COUNT(n), MPI_INTEGER, next, tag, MPI_COMM_WORLD, other, ierror)
  end subroutine

  subroutine expect_received()
    in%want(:n) = content(previous, 1, n)
  end subroutine

  subroutine send(form)
    character, intent(in) :: form
    call receive_in_background()
#define NAME send
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, MPI_COMM_WORLD
#include "fortran/message_forms.f90"
    call expect_received()
  end subroutine

  subroutine ssend(form)
    character, intent(in) :: form
    call receive_in_background()
#define NAME ssend
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, MPI_COMM_WORLD
#include "fortran/message_forms.f90"
    call expect_received()
  end subroutine

  subroutine rsend(form)
    character, intent(in) :: form
    call receive_in_background()
#define NAME rsend
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, MPI_COMM_WORLD
#include "fortran/message_forms.f90"
    call expect_received()
  end subroutine

  ! The room is in any memory as well, and what is in it afterwards is MPI's affair.
  subroutine bsend(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: length
#if BINDING == 3
    type(c_ptr) :: room
#else
    integer(MPI_ADDRESS_KIND) :: room
#endif
    call receive_in_background()
    call MPI_Buffer_attach(more%at, COUNT(integer_bytes * size(more%at)), ierror)
#define NAME bsend
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, MPI_COMM_WORLD
#include "fortran/message_forms.f90"
    call MPI_Buffer_detach(room, length, ierror)
    if (length /= integer_bytes * size(more%at)) call fail("another size is detached")
#if BINDING == 3
    if (.not. c_associated(room, c_loc(more%at))) call fail("another buffer is detached")
#endif
    call set(more, more%want)
    call expect_received()
  end subroutine

  subroutine receive(form)
    character, intent(in) :: form
    call send_in_background()
#define NAME recv
#define ARGUMENTS in%at, COUNT(n), MPI_INTEGER, previous, tag, MPI_COMM_WORLD
#define STATUS
#include "fortran/message_forms.f90"
    call expect_received()
  end subroutine

  subroutine receive_matched(form)
    character, intent(in) :: form
    HANDLE(MPI_Message) :: message
    call send_in_background()
    call start_other()
    call MPI_Mprobe(previous, tag, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierror)
    if (form == "b") then
      call MPI_Mrecv(in%at, COUNT(n), MPI_INTEGER, message, MPI_STATUS_IGNORE, ierror)
    else
      call MPI_Imrecv(in%at, COUNT(n), MPI_INTEGER, message, request, ierror)
      call wait()
    end if
    call MPI_Wait(other, MPI_STATUS_IGNORE, ierror)
    call MPI_Request_free(other, ierror)
    call expect_received()
  end subroutine

  ! Fewer elements than there is room for, which the status tells.
  subroutine receive_any(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: elements
    STATUSES(status, 1)
    call send_in_background()
    call start_other()
    call MPI_Recv(in%at, COUNT(n + 1), MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, STATUS_AT(status, 1), ierror)
    call MPI_Get_count(STATUS_AT(status, 1), MPI_INTEGER, elements, ierror)
    if (elements /= n) call fail("another count is received")
    call MPI_Wait(other, MPI_STATUS_IGNORE, ierror)
    call MPI_Request_free(other, ierror)
    call expect_received()
  end subroutine

  subroutine send_and_receive(form)
    character, intent(in) :: form
#define NAME sendrecv
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, in%at, COUNT(n), MPI_INTEGER, previous, tag, MPI_COMM_WORLD
#include "fortran/exchange_forms.f90"
    call expect_received()
  end subroutine

  subroutine send_and_replace(form)
    character, intent(in) :: form
#define NAME sendrecv_replace
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, tag, previous, tag, MPI_COMM_WORLD
#include "fortran/exchange_forms.f90"
    out%want(:n) = content(previous, 1, n)
  end subroutine
end module
