! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! One-sided calls, each in all its forms: each rank acts on the next one's window, whose memory is the buffer "more".
module one_sided
  use calls
#include "mpi_binding.f90"
  private
  public :: one_sided_rows

  HANDLE(MPI_Win) :: window
  integer(MPI_ADDRESS_KIND), parameter :: start = 0

contains

  function one_sided_rows() result(rows)
    type(row), allocatable :: rows(:)
    rows = [ &
        row("Put", "br", put), &
        row("Get", "br", get), &
        row("Accumulate", "br", accumulate), &
        row("Get_accumulate", "br", get_accumulate), &
        row("Fetch_and_op", "b", fetch_and_op), &
        row("Compare_and_swap", "b", compare_and_swap)]
  end function

  ! A window in GPU memory is nothing for what MPICH does to it by the CPU of the target.
  subroutine begin_epoch(form, by_target)
    character, intent(in) :: form
    logical, intent(in) :: by_target
    if (mpich .and. (by_target .or. ranks == 1)) call on_host(more)
    call MPI_Win_create(more%at, int(integer_bytes, MPI_ADDRESS_KIND) * size(more%at), int(integer_bytes, DISPLACEMENT_KIND), &
        MPI_INFO_NULL, MPI_COMM_WORLD, window, ierror)
    if (form == "b") then
      call MPI_Win_fence(0, window, ierror)
    else
      call MPI_Win_lock_all(0, window, ierror)
    end if
  end subroutine

  subroutine end_epoch(form)
    character, intent(in) :: form
    if (form == "b") then
      call MPI_Win_fence(0, window, ierror)
    else
      call MPI_Win_unlock_all(window, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end if
    call MPI_Win_free(window, ierror)
  end subroutine

  subroutine put(form)
    character, intent(in) :: form
    call begin_epoch(form, .false.)
#define NAME put
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, start, COUNT(n), MPI_INTEGER
#include "fortran/one_sided_forms.f90"
    more%want(:n) = content(previous, 1, n)
  end subroutine

  subroutine get(form)
    character, intent(in) :: form
    call begin_epoch(form, .false.)
#define NAME get
#define ARGUMENTS in%at, COUNT(n), MPI_INTEGER, next, start, COUNT(n), MPI_INTEGER
#include "fortran/one_sided_forms.f90"
    in%want(:n) = of_more(next, 1, n)
  end subroutine

  subroutine accumulate(form)
    character, intent(in) :: form
    call begin_epoch(form, .true.)
#define NAME accumulate
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, next, start, COUNT(n), MPI_INTEGER, MPI_SUM
#include "fortran/one_sided_forms.f90"
    more%want(:n) = more%want(:n) + content(previous, 1, n)
  end subroutine

  subroutine get_accumulate(form)
    character, intent(in) :: form
    call begin_epoch(form, .true.)
#define NAME get_accumulate
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, next, start, COUNT(n), MPI_INTEGER, MPI_SUM
#include "fortran/one_sided_forms.f90"
    in%want(:n) = of_more(next, 1, n)
    more%want(:n) = more%want(:n) + content(previous, 1, n)
  end subroutine

  subroutine fetch_and_op(form)
    character, intent(in) :: form
    call begin_epoch(form, .true.)
    call MPI_Fetch_and_op(out%at, in%at, MPI_INTEGER, next, start, MPI_SUM, window, ierror)
    call end_epoch(form)
    in%want(:1) = of_more(next, 1, 1)
    more%want(:1) = more%want(:1) + content(previous, 1, 1)
  end subroutine

  ! What is expected to be there is in "out", behind what is to replace it.
  subroutine compare_and_swap(form)
    character, intent(in) :: form
    call set(out, [content(rank, 1, 1), of_more(next, 1, 1)])
    call begin_epoch(form, .true.)
    call MPI_Compare_and_swap(out%at, out%at(2:), in%at, MPI_INTEGER, next, start, window, ierror)
    call end_epoch(form)
    in%want(:1) = of_more(next, 1, 1)
    more%want(:1) = content(previous, 1, 1)
  end subroutine
end module
