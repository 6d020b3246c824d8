! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Collective calls of neighbourhoods, each in all its forms: in a line of ranks, where those at the ends have a neighbour less, whose
! block stays as it was.
module neighbours
  use calls
#include "mpi_binding.f90"
  private
  public :: neighbour_rows

  HANDLE(MPI_Comm) :: line

contains

  function neighbour_rows() result(rows)
    type(row), allocatable :: rows(:)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.false.], .false., line, ierror)
    rows = [ &
        row("Neighbor_allgather", "bnp", allgather), &
        row("Neighbor_allgatherv", "bnp", allgatherv), &
        row("Neighbor_alltoall", "bnp", alltoall), &
        row("Neighbor_alltoallv", "bnp", alltoallv), &
        row("Neighbor_alltoallw", "bnp", alltoallw)]
  end function

  subroutine allgather(form)
    character, intent(in) :: form
#define NAME neighbor_allgather
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, line
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n) = content(rank - 1, 1, n)
    if (rank < ranks - 1) in%want(n + 1:n + n) = content(rank + 1, 1, n)
  end subroutine

  subroutine allgatherv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: from(2)
    integer(DISPLACEMENT_KIND) :: offsets(2)
    from = n - 1
    offsets = places(2)
#define NAME neighbor_allgatherv
#define ARGUMENTS out%at, COUNT(n - 1), MPI_INTEGER, in%at, from, offsets, MPI_INTEGER, line
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n - 1) = content(rank - 1, 1, n - 1)
    if (rank < ranks - 1) in%want(n + 1:n + n - 1) = content(rank + 1, 1, n - 1)
  end subroutine

  subroutine alltoall(form)
    character, intent(in) :: form
#define NAME neighbor_alltoall
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, line
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n) = content(rank - 1, n + 1, n)
    if (rank < ranks - 1) in%want(n + 1:n + n) = content(rank + 1, 1, n)
  end subroutine

  subroutine alltoallv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: to(2), from(2)
    integer(DISPLACEMENT_KIND) :: offsets(2)
    offsets = places(2)
    to = [n - 2, n - 1]
    from = [n - 1, n - 2]
#define NAME neighbor_alltoallv
#define ARGUMENTS out%at, to, offsets, MPI_INTEGER, in%at, from, offsets, MPI_INTEGER, line
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n - 1) = content(rank - 1, n + 1, n - 1)
    if (rank < ranks - 1) in%want(n + 1:n + n - 2) = content(rank + 1, 1, n - 2)
  end subroutine

  subroutine alltoallw(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: to(2), from(2)
    integer(MPI_ADDRESS_KIND) :: offsets(2)
    HANDLE(MPI_Datatype) :: types(2)
    to = [n - 2, n - 1]
    from = [n - 1, n - 2]
    offsets = integer_bytes * places(2)
    types = MPI_INTEGER
#define NAME neighbor_alltoallw
#define ARGUMENTS out%at, to, offsets, types, in%at, from, offsets, types, line
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n - 1) = content(rank - 1, n + 1, n - 1)
    if (rank < ranks - 1) in%want(n + 1:n + n - 2) = content(rank + 1, 1, n - 2)
  end subroutine
end module
