! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Collective calls, each in all its forms, also in place.
module collectives
  use calls
#include "mpi_binding.f90"
  private
  public :: collective_rows

contains

  function collective_rows() result(rows)
    type(row), allocatable :: rows(:)
    rows = [ &
        row("Bcast", "bnp", bcast), &
        row("Gather", "bnp", gather), &
        row("Gatherv", "bnp", gatherv), &
        row("Scatter", "bnp", scatter), &
        row("Scatterv", "bnp", scatterv), &
        row("Allgather", "bnp", allgather), &
        row("Allgatherv", "bnp", allgatherv), &
        row("Alltoall", "bnp", alltoall), &
        row("Alltoallv", "bnp", alltoallv), &
        row("Alltoallw", "bnp", alltoallw), &
        row("Reduce", "bnp", reduce), &
        row("Allreduce", "bnp", allreduce), &
        row("Scan", "bnp", scan), &
        row("Exscan", "bnp", exscan), &
        row("Reduce_scatter", "bnp", reduce_scatter), &
        row("Reduce_scatter_block", "bnp", reduce_scatter_block), &
        row("Allgather in place", "bnp", allgather_in_place), &
        row("Alltoall in place", "bnp", alltoall_in_place), &
        row("Allreduce in place", "bnp", allreduce_in_place), &
        row("Scan in place", "bnp", scan_in_place), &
        row("Gather in place", "bnp", gather_in_place), &
        row("Reduce in place", "bnp", reduce_in_place), &
        row("Scatter in place", "bnp", scatter_in_place)]
  end function

  ! Counts that differ: one less for each rank.
  function decreasing()
    integer(COUNT_KIND) :: decreasing(0:ranks - 1)
    integer :: r
    decreasing = [(n - r, r = 0, ranks - 1)]
  end function

  subroutine bcast(form)
    character, intent(in) :: form
#define NAME bcast
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, ranks - 1, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    out%want(:n) = content(ranks - 1, 1, n)
  end subroutine

  subroutine gather(form)
    character, intent(in) :: form
    integer :: r
#define NAME gather
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    if (rank /= 0) return
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + n) = content(r, 1, n)
    end do
  end subroutine

  subroutine gatherv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: counts(0:ranks - 1)
    integer(DISPLACEMENT_KIND) :: offsets(0:ranks - 1)
    integer :: r
    counts = decreasing()
    offsets = places(ranks)
#define NAME gatherv
#define ARGUMENTS out%at, counts(rank), MPI_INTEGER, in%at, counts, offsets, MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    if (rank /= 0) return
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + counts(r)) = content(r, 1, int(counts(r)))
    end do
  end subroutine

  subroutine scatter(form)
    character, intent(in) :: form
#define NAME scatter
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:n) = content(0, rank * n + 1, n)
  end subroutine

  subroutine scatterv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: counts(0:ranks - 1)
    integer(DISPLACEMENT_KIND) :: offsets(0:ranks - 1)
    counts = decreasing()
    offsets = places(ranks)
#define NAME scatterv
#define ARGUMENTS out%at, counts, offsets, MPI_INTEGER, in%at, counts(rank), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:counts(rank)) = content(0, rank * n + 1, int(counts(rank)))
  end subroutine

  subroutine allgather(form)
    character, intent(in) :: form
    integer :: r
#define NAME allgather
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + n) = content(r, 1, n)
    end do
  end subroutine

  subroutine allgatherv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: counts(0:ranks - 1)
    integer(DISPLACEMENT_KIND) :: offsets(0:ranks - 1)
    integer :: r
    counts = decreasing()
    offsets = places(ranks)
#define NAME allgatherv
#define ARGUMENTS out%at, counts(rank), MPI_INTEGER, in%at, counts, offsets, MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + counts(r)) = content(r, 1, int(counts(r)))
    end do
  end subroutine

  subroutine alltoall(form)
    character, intent(in) :: form
    integer :: r
#define NAME alltoall
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + n) = content(r, rank * n + 1, n)
    end do
  end subroutine

  subroutine alltoallv(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: to(0:ranks - 1), from(0:ranks - 1)
    integer(DISPLACEMENT_KIND) :: offsets(0:ranks - 1)
    integer :: r
    to = n - rank - 2 * [(r, r = 0, ranks - 1)]
    from = n - 2 * rank - [(r, r = 0, ranks - 1)]
    offsets = places(ranks)
#define NAME alltoallv
#define ARGUMENTS out%at, to, offsets, MPI_INTEGER, in%at, from, offsets, MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + from(r)) = content(r, rank * n + 1, int(from(r)))
    end do
  end subroutine

  subroutine alltoallw(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: to(0:ranks - 1), from(0:ranks - 1)
    integer(DISPLACEMENT_KIND) :: offsets(0:ranks - 1)
    integer :: r
    HANDLE(MPI_Datatype) :: types(0:ranks - 1)
    to = n - rank - 2 * [(r, r = 0, ranks - 1)]
    from = n - 2 * rank - [(r, r = 0, ranks - 1)]
    offsets = integer_bytes * places(ranks)
    types = MPI_INTEGER
#define NAME alltoallw
#define ARGUMENTS out%at, to, offsets, types, in%at, from, offsets, types, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      in%want(r * n + 1:r * n + from(r)) = content(r, rank * n + 1, int(from(r)))
    end do
  end subroutine

  subroutine reduce(form)
    character, intent(in) :: form
#define NAME reduce
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    if (rank == 0) in%want(:n) = sums(ranks - 1, 1, n)
  end subroutine

  subroutine allreduce(form)
    character, intent(in) :: form
#define NAME allreduce
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:n) = sums(ranks - 1, 1, n)
  end subroutine

  subroutine scan(form)
    character, intent(in) :: form
#define NAME scan
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:n) = sums(rank, 1, n)
  end subroutine

  subroutine exscan(form)
    character, intent(in) :: form
#define NAME exscan
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    if (rank > 0) in%want(:n) = sums(rank - 1, 1, n)
  end subroutine

  subroutine reduce_scatter(form)
    character, intent(in) :: form
    integer(COUNT_KIND) :: counts(0:ranks - 1)
    counts = decreasing()
#define NAME reduce_scatter
#define ARGUMENTS out%at, in%at, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:counts(rank)) = sums(ranks - 1, int(sum(counts(:rank - 1))) + 1, int(counts(rank)))
  end subroutine

  subroutine reduce_scatter_block(form)
    character, intent(in) :: form
#define NAME reduce_scatter_block
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    in%want(:n) = sums(ranks - 1, rank * n + 1, n)
  end subroutine

  subroutine allgather_in_place(form)
    character, intent(in) :: form
    integer :: r
#define NAME allgather
#define ARGUMENTS MPI_IN_PLACE, COUNT(0), MPI_DATATYPE_NULL, out%at, COUNT(n), MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      out%want(r * n + 1:r * n + n) = content(r, r * n + 1, n)
    end do
  end subroutine

  subroutine alltoall_in_place(form)
    character, intent(in) :: form
    integer :: r
#define NAME alltoall
#define ARGUMENTS MPI_IN_PLACE, COUNT(0), MPI_DATATYPE_NULL, out%at, COUNT(n), MPI_INTEGER, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    do r = 0, ranks - 1
      out%want(r * n + 1:r * n + n) = content(r, rank * n + 1, n)
    end do
  end subroutine

  subroutine allreduce_in_place(form)
    character, intent(in) :: form
#define NAME allreduce
#define ARGUMENTS MPI_IN_PLACE, out%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    out%want(:n) = sums(ranks - 1, 1, n)
  end subroutine

  subroutine scan_in_place(form)
    character, intent(in) :: form
#define NAME scan
#define ARGUMENTS MPI_IN_PLACE, out%at, COUNT(n), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    out%want(:n) = sums(rank, 1, n)
  end subroutine

  subroutine gather_in_place(form)
    character, intent(in) :: form
    integer :: r
    if (rank == 0) then
#define NAME gather
#define ARGUMENTS MPI_IN_PLACE, COUNT(0), MPI_DATATYPE_NULL, out%at, COUNT(n), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    else
#define NAME gather
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    end if
    if (rank /= 0) return
    do r = 1, ranks - 1
      out%want(r * n + 1:r * n + n) = content(r, 1, n)
    end do
  end subroutine

  subroutine reduce_in_place(form)
    character, intent(in) :: form
    if (rank == 0) then
#define NAME reduce
#define ARGUMENTS MPI_IN_PLACE, out%at, COUNT(n), MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    else
#define NAME reduce
#define ARGUMENTS out%at, in%at, COUNT(n), MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    end if
    if (rank == 0) out%want(:n) = sums(ranks - 1, 1, n)
  end subroutine

  subroutine scatter_in_place(form)
    character, intent(in) :: form
    if (rank == 0) then
#define NAME scatter
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, MPI_IN_PLACE, COUNT(0), MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    else
#define NAME scatter
#define ARGUMENTS out%at, COUNT(n), MPI_INTEGER, in%at, COUNT(n), MPI_INTEGER, 0, MPI_COMM_WORLD
#include "fortran/collective_forms.f90"
    end if
    if (rank /= 0) in%want(:n) = content(0, rank * n + 1, n)
  end subroutine
end module
