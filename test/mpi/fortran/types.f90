! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Datatypes with gaps and of absolute addresses, packing, and reductions of Fortran's own types and of the user's.
module types
  use calls
#include "mpi_binding.f90"
  private
  public :: type_rows

  character(10), parameter :: external = "external32"

contains

  function type_rows() result(rows)
    type(row), allocatable :: rows(:)
    rows = [ &
        row("Type_contiguous", "b", contiguous_pairs), &
        row("Type_vector", "b", vector), &
        row("Type_create_hvector", "b", hvector), &
        row("Type_indexed", "b", indexed), &
        row("Type_create_indexed_block", "b", indexed_block), &
        row("Type_create_hindexed_block", "b", hindexed_block), &
        row("Type_create_subarray", "b", subarray), &
        row("Type_create_struct", "b", struct), &
        row("BOTTOM", "bn", bottom), &
        row("Pack", "b", pack), &
        row("Pack_external", "b", pack_external), &
        row("Reduce_local", "b", reduce_local), &
        row("Op_create", "b", own_operation), &
        row("2INTEGER", "b", pairs), &
        row("LOGICAL", "b", logicals)]
  end function

  ! Every other element of "out" into the same places of "in".
  subroutine exchange(every_other)
    HANDLE(MPI_Datatype), intent(inout) :: every_other
    integer :: half
    call MPI_Type_commit(every_other, ierror)
    call MPI_Sendrecv(out%at, COUNT(1), every_other, next, tag, in%at, COUNT(1), every_other, previous, tag, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, ierror)
    call MPI_Type_free(every_other, ierror)
    half = n / 2
    in%want(:2 * half:2) = every_second(content(previous, 1, 2 * half))
  end subroutine

  pure function every_second(values)
    integer, intent(in) :: values(:)
    integer :: every_second(size(values) / 2)
    every_second = values(::2)
  end function

  ! Of integers whose extent is two.
  subroutine contiguous_pairs(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made, element
    integer(MPI_ADDRESS_KIND) :: lower, extent
    lower = 0
    extent = 2 * integer_bytes
    call MPI_Type_create_resized(MPI_INTEGER, lower, extent, element, ierror)
    call MPI_Type_contiguous(COUNT(n / 2), element, made, ierror)
    call MPI_Type_free(element, ierror)
    call exchange(made)
  end subroutine

  subroutine vector(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    call MPI_Type_vector(COUNT(n / 2), COUNT(1), COUNT(2), MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine hvector(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    integer(MPI_ADDRESS_KIND) :: stride
    stride = 2 * integer_bytes
    call MPI_Type_create_hvector(COUNT(n / 2), COUNT(1), stride, MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine indexed(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    integer :: i
    call MPI_Type_indexed(COUNT(n / 2), COUNT([(1, i = 1, n / 2)]), COUNT([(2 * i, i = 0, n / 2 - 1)]), MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine indexed_block(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    integer :: i
    call MPI_Type_create_indexed_block(COUNT(n / 2), COUNT(1), COUNT([(2 * i, i = 0, n / 2 - 1)]), MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine hindexed_block(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    integer(MPI_ADDRESS_KIND) :: offsets(n / 2)
    integer :: i
    offsets = [(2 * integer_bytes * i, i = 0, n / 2 - 1)]
    call MPI_Type_create_hindexed_block(COUNT(n / 2), COUNT(1), offsets, MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine subarray(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made
    call MPI_Type_create_subarray(2, [COUNT(2), COUNT(n / 2)], [COUNT(1), COUNT(n / 2)], [COUNT(0), COUNT(0)], &
        MPI_ORDER_FORTRAN, MPI_INTEGER, made, ierror)
    call exchange(made)
  end subroutine

  subroutine struct(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: made, types(n / 2)
    integer(MPI_ADDRESS_KIND) :: offsets(n / 2)
    integer :: i
    offsets = [(2 * integer_bytes * i, i = 0, n / 2 - 1)]
    types = MPI_INTEGER
    call MPI_Type_create_struct(COUNT(n / 2), COUNT([(1, i = 1, n / 2)]), offsets, types, made, ierror)
    call exchange(made)
  end subroutine

  ! From "out" and "more", which may lie in different memories, to "in".
  subroutine bottom(form)
    character, intent(in) :: form
    HANDLE(MPI_Datatype) :: sent, received
    HANDLE(MPI_Request) :: requests(2)
    integer(MPI_ADDRESS_KIND) :: from(2), to(1)
    call MPI_Get_address(out%at, from(1), ierror)
    call MPI_Get_address(more%at, from(2), ierror)
    call MPI_Get_address(in%at, to(1), ierror)
    call MPI_Type_create_hindexed(COUNT(2), [COUNT(n), COUNT(n)], from, MPI_INTEGER, sent, ierror)
    call MPI_Type_create_hindexed(COUNT(1), [COUNT(2 * n)], to, MPI_INTEGER, received, ierror)
    call MPI_Type_commit(sent, ierror)
    call MPI_Type_commit(received, ierror)
    if (form == "b") then
      call MPI_Sendrecv(MPI_BOTTOM, COUNT(1), sent, next, tag, MPI_BOTTOM, COUNT(1), received, previous, tag, MPI_COMM_WORLD, &
          MPI_STATUS_IGNORE, ierror)
    else
      call MPI_Irecv(MPI_BOTTOM, COUNT(1), received, previous, tag, MPI_COMM_WORLD, requests(1), ierror)
      call MPI_Isend(MPI_BOTTOM, COUNT(1), sent, next, tag, MPI_COMM_WORLD, requests(2), ierror)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    end if
    call MPI_Type_free(sent, ierror)
    call MPI_Type_free(received, ierror)
    in%want(:2 * n) = [content(previous, 1, n), of_more(previous, 1, n)]
  end subroutine

  ! Into "more" and from there, in two parts each.
  subroutine pack(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: position, length
    position = 0
    length = integer_bytes * n
    call MPI_Pack(out%at, COUNT(n - 1), MPI_INTEGER, more%at, length, position, MPI_COMM_WORLD, ierror)
    call MPI_Pack(out%at(n:), COUNT(1), MPI_INTEGER, more%at, length, position, MPI_COMM_WORLD, ierror)
    if (position /= length) call fail("another size is packed")
    more%want(:n) = content(rank, 1, n)
    position = 0
    call MPI_Unpack(more%at, length, position, in%at, COUNT(1), MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call MPI_Unpack(more%at, length, position, in%at(2:), COUNT(n - 1), MPI_INTEGER, MPI_COMM_WORLD, ierror)
    in%want(:n) = content(rank, 1, n)
  end subroutine

  subroutine pack_external(form)
    character, intent(in) :: form
    integer(MPI_ADDRESS_KIND) :: position, bytes
    bytes = integer_bytes * n
    position = 0
    call MPI_Pack_external(external, out%at, COUNT(n), MPI_INTEGER, more%at, bytes, position, ierror)
    if (position /= bytes) call fail("another size is packed")
    more%want(:n) = big_endian(content(rank, 1, n))
    position = 0
    call MPI_Unpack_external(external, more%at, bytes, position, in%at, COUNT(n), MPI_INTEGER, ierror)
    in%want(:n) = content(rank, 1, n)
  end subroutine

  elemental integer function big_endian(value)
    integer, intent(in) :: value
    integer :: i
    big_endian = 0
    do i = 0, 3
      call mvbits(value, 8 * i, 8, big_endian, 24 - 8 * i)
    end do
  end function

  subroutine reduce_local(form)
    character, intent(in) :: form
    call MPI_Reduce_local(out%at, more%at, COUNT(n), MPI_INTEGER, MPI_SUM, ierror)
    more%want(:n) = more%want(:n) + content(rank, 1, n)
  end subroutine

  subroutine own_operation(form)
    character, intent(in) :: form
    HANDLE(MPI_Op) :: operation
    call MPI_Op_create(add_integers, .true., operation, ierror)
    call MPI_Allreduce(out%at, in%at, COUNT(n), MPI_INTEGER, operation, MPI_COMM_WORLD, ierror)
    call MPI_Op_free(operation, ierror)
    in%want(:n) = sums(ranks - 1, 1, n)
  end subroutine

#if BINDING == 3
  subroutine add_integers(one, both, length, datatype)
    type(c_ptr), value :: one, both
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: from(:), to(:)
    call c_f_pointer(one, from, [length])
    call c_f_pointer(both, to, [length])
    to = to + from
  end subroutine
#else
  subroutine add_integers(from, to, length, datatype)
    integer :: length, datatype
    integer :: from(length), to(length)
    to = to + from
  end subroutine
#endif

  ! The larger, or the lower place of two that are equal, which every other pair is.
  subroutine pairs(form)
    character, intent(in) :: form
    integer :: i
    call set(out, [(merge(i, rank, mod(i, 4) == 1), i = 1, n)])
    call MPI_Allreduce(out%at, in%at, COUNT(n / 2), MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
    in%want(:2 * (n / 2)) = [(merge(i, merge(0, ranks - 1, mod(i, 4) == 2), mod(i, 4) == 1), i = 1, 2 * (n / 2))]
  end subroutine

  subroutine logicals(form)
    character, intent(in) :: form
    integer :: i
    call set(out, transfer([(mod(i, 3) == 0 .and. mod(rank, 2) == 1, i = 1, n)], [0]))
    call MPI_Allreduce(out%at, in%at, COUNT(n), MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
    in%want(:n) = transfer([(mod(i, 3) == 0 .and. ranks > 1, i = 1, n)], [0])
  end subroutine
end module
