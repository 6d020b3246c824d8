! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! What the rows of the table share: the ranks, three buffers in host or GPU memory, what each of these should hold when the call
! is complete, and the request of a call that is under way.
module calls
#include "mpi_binding.f90"
#include "mpi_driver.f90"
  private

  ! One call in one of its forms: "b", blocking, or "n", non-blocking, "p", persistent, "r", one-sided with a request,
  ! "s", split into begin and end.
  abstract interface
    subroutine make_call(form)
      character, intent(in) :: form
    end subroutine
  end interface
  type, public :: row
    character(32) :: name
    character(3) :: forms
    procedure(make_call), pointer, nopass :: make
  end type

  type, public :: buffer
    integer, pointer, contiguous :: at(:) => null() ! for MPI; one of these two
    integer, pointer, contiguous :: host(:) => null(), gpu(:) => null()
    integer, allocatable :: want(:)
  end type
  type(buffer), public, target :: out, in, more
  character(8), public :: memory ! "host", "cuda", or "random"

  integer, public :: rank, ranks, next, previous
  integer, public :: n ! elements of a block
  integer, public :: wrong = 0
  integer, public :: ierror
  logical, public :: mpich
  integer, public, parameter :: tag = 7, integer_bytes = 4
  HANDLE(MPI_Request), public :: request
  integer :: round ! a persistent operation is started twice, with other contents

  ! Ranks that test let others run, as those that wait do.
  interface
    subroutine let_others_run() bind(C, name="sched_yield")
    end subroutine
  end interface

  public :: begin, refill, set, values_of, on_host, verify, expect_there, fail, wait, let_others_run, start_twice, allocate_buffers, places, content, of_more, sums

contains

  ! Long enough for a block of so many elements for each rank, and for three.
  subroutine allocate_buffers(elements)
    integer, intent(in) :: elements
    integer :: length
    length = elements * max(ranks, 3) + 1000 ! Bsend's room
    call allocate_buffer(out, length)
    call allocate_buffer(in, length)
    call allocate_buffer(more, length)
  end subroutine

  subroutine allocate_buffer(buf, length)
    type(buffer), intent(inout) :: buf
    integer, intent(in) :: length
    type(c_ptr) :: address
    allocate (buf%host(length), buf%want(length))
    if (memory == "host") return
    if (allocate_on_gpu(address, int(integer_bytes * length, c_size_t)) /= 0) stop 1
    call c_f_pointer(address, buf%gpu, [length])
  end subroutine

  ! Each buffer anywhere, with what a call begins with.
  subroutine begin()
    round = 1
    call choose(out)
    call choose(in)
    call choose(more)
    call set(more, of_more(rank, 1, size(more%want)))
    call fill()
  end subroutine

  subroutine choose(buf)
    type(buffer), intent(inout) :: buf
    real :: number
    call random_number(number)
    if (memory == "cuda" .or. (memory == "random" .and. number < 0.5)) then
      buf%at => buf%gpu
    else
      buf%at => buf%host
    end if
  end subroutine

  subroutine on_host(buf)
    type(buffer), intent(inout) :: buf
    if (associated(buf%at, buf%host)) return
    buf%at => buf%host
    call set(buf, buf%want)
  end subroutine

  ! Of the next round of a persistent operation.
  subroutine refill()
    round = round + 1
    call fill()
  end subroutine

  subroutine fill()
    integer :: i
    call set(out, content(rank, 1, size(out%want)))
    call set(in, [(-i, i = 1, size(in%want))])
  end subroutine

  ! These values, which are to stay.
  subroutine set(buf, values)
    type(buffer), intent(inout) :: buf
    integer, intent(in) :: values(:)
    integer, target :: copied(size(values))
    copied = values
    buf%want(:size(values)) = values
    if (associated(buf%at, buf%host)) then
      buf%host(:size(values)) = values
    else if (copy(c_loc(buf%at(1)), c_loc(copied), int(integer_bytes * size(values), c_size_t)) /= 0) then
      stop 1
    end if
  end subroutine

  function values_of(buf) result(now)
    type(buffer), intent(in) :: buf
    integer, target :: now(size(buf%want))
    if (associated(buf%at, buf%host)) then
      now = buf%host
    else if (copy(c_loc(now), c_loc(buf%at(1)), int(integer_bytes * size(now), c_size_t)) /= 0) then
      stop 1
    end if
  end function

  ! Every element of every buffer.
  subroutine verify()
    call compare("out", out)
    call compare("in", in)
    call compare("more", more)
  end subroutine

  subroutine compare(name, buf)
    character(*), intent(in) :: name
    type(buffer), intent(inout) :: buf
    integer :: now(size(buf%want)), i
    now = values_of(buf)
    do i = 1, size(now)
      if (now(i) == buf%want(i)) cycle
      if (wrong == 0) print '(3a, 4(i0, a))', "buffer ", name, " of rank ", rank, ": element ", i, " is ", now(i), ", not ", buf%want(i)
      wrong = wrong + 1
    end do
  end subroutine

  ! These elements of "in", as soon as MPI tells that they have been received.
  subroutine expect_there(first, last)
    integer, intent(in) :: first, last
    integer :: now(size(in%want))
    now = values_of(in)
    if (any(now(first:last) /= in%want(first:last))) call fail("data are told of before they are there")
  end subroutine

  subroutine fail(what)
    character(*), intent(in) :: what
    print '(a, i0, 2a)', "rank ", rank, ": ", what
    wrong = wrong + 1
  end subroutine

  subroutine wait()
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! A persistent operation.
  subroutine start_twice()
    call MPI_Start(request, ierror)
    call wait()
    call refill()
    call MPI_Start(request, ierror)
    call wait()
    call MPI_Request_free(request, ierror)
  end subroutine

  ! Of so many blocks of n elements.
  pure function places(blocks)
    integer, intent(in) :: blocks
    integer :: places(0:blocks - 1), i
    places = [(i * n, i = 0, blocks - 1)]
  end function

  ! What a rank's buffer "out" holds as a round begins, from an element on.
  pure function content(of_rank, from, elements)
    integer, intent(in) :: of_rank, from, elements
    integer :: content(elements), i
    content = [(1000003 * (of_rank + 1) + 30011 * round + from + i, i = 1, elements)]
  end function

  ! And its buffer "more", in each round.
  pure function of_more(of_rank, from, elements)
    integer, intent(in) :: of_rank, from, elements
    integer :: of_more(elements), i
    of_more = [(-1000003 * (of_rank + 1) + from + i, i = 1, elements)]
  end function

  ! The sums of these "out" of the ranks up to last.
  pure function sums(last, from, elements)
    integer, intent(in) :: last, from, elements
    integer :: sums(elements), r
    sums = 0
    do r = 0, last
      sums = sums + content(r, from, elements)
    end do
  end function
end module
