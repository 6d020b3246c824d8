! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Calls that read and write files, each in all its forms: a block of n integers for each rank.
module files
  use calls
#include "mpi_binding.f90"
#ifndef LARGE_FILES
#undef COUNT_KIND
#define COUNT_KIND kind(0)
#endif
  private
  public :: file_rows

  HANDLE(MPI_File) :: file

contains

  function file_rows() result(rows)
    type(row), allocatable :: rows(:)
    rows = [ &
        row("File_read", "bn", read_own), &
        row("File_read_all", "bns", read_all), &
        row("File_read_at", "bn", read_at), &
        row("File_read_at_all", "bns", read_at_all), &
        row("File_read_shared", "bn", read_shared), &
        row("File_read_ordered", "bs", read_ordered), &
        row("File_write", "bn", write_own), &
        row("File_write_all", "bns", write_all), &
        row("File_write_at", "bn", write_at), &
        row("File_write_at_all", "bns", write_at_all), &
        row("File_write_shared", "bn", write_shared), &
        row("File_write_ordered", "bs", write_ordered)]
  end function

  ! The file pointers are at the block of that rank, the shared one at the begin.
  subroutine open_file(block)
    integer, intent(in) :: block
    character(256) :: directory
    call get_environment_variable("TMPDIR", directory)
    call MPI_File_open(MPI_COMM_WORLD, trim(directory) // "/mpi_fortran.file", &
        MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
    call MPI_File_seek(file, offset(block), MPI_SEEK_SET, ierror)
  end subroutine

  pure function offset(block)
    integer, intent(in) :: block
    integer(MPI_OFFSET_KIND) :: offset
    offset = int(block, MPI_OFFSET_KIND) * n * integer_bytes
  end function

  ! From host memory.
  subroutine open_written_file(block)
    integer, intent(in) :: block
    call open_file(block)
    call MPI_File_write_at_all(file, offset(rank), content(rank, 1, n), COUNT(n), MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    call settle()
  end subroutine

  subroutine settle()
    call MPI_File_sync(file, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_File_sync(file, ierror)
  end subroutine

  ! The block of this rank, into host memory.
  function written()
    integer :: written(n)
    call settle()
    call MPI_File_read_at_all(file, offset(rank), written, COUNT(n), MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    call MPI_File_close(file, ierror)
  end function

  ! In an order that is left to MPI: each rank's whole block once.
  subroutine expect_any_order(block)
    integer, intent(in) :: block(n)
    integer :: writer, writers(0:ranks - 1), first(1), r
    writer = -1
    do r = 0, ranks - 1
      first = content(r, 1, 1)
      if (block(1) == first(1)) writer = r
    end do
    call MPI_Allgather(writer, 1, MPI_INTEGER, writers, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    do r = 0, ranks - 1
      if (count(writers == r) /= 1) call fail("blocks are not there once")
    end do
    call expect_block(block, writer)
  end subroutine

  subroutine expect_block(block, of_rank)
    integer, intent(in) :: block(n), of_rank
    if (any(block /= content(of_rank, 1, n))) call fail("another block is written")
  end subroutine

  subroutine read_own(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read
#define BUFFER file, in%at
#define ARGUMENTS file, in%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    in%want(:n) = content(previous, 1, n)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine read_all(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read_all
#define BUFFER file, in%at
#define ARGUMENTS file, in%at, COUNT(n), MPI_INTEGER
#define SPLIT
#include "fortran/file_forms.f90"
    in%want(:n) = content(previous, 1, n)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine read_at(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read_at
#define BUFFER file, in%at
#define ARGUMENTS file, offset(previous), in%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    in%want(:n) = content(previous, 1, n)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine read_at_all(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read_at_all
#define BUFFER file, in%at
#define ARGUMENTS file, offset(previous), in%at, COUNT(n), MPI_INTEGER
#define SPLIT
#include "fortran/file_forms.f90"
    in%want(:n) = content(previous, 1, n)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine read_shared(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read_shared
#define BUFFER file, in%at
#define ARGUMENTS file, in%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    call expect_any_order(values_of(in))
    in%want(:n) = values_of(in)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine read_ordered(form)
    character, intent(in) :: form
    call open_written_file(previous)
#define NAME read_ordered
#define BUFFER file, in%at
#define ARGUMENTS file, in%at, COUNT(n), MPI_INTEGER
#define ORDERED
#define SPLIT
#include "fortran/file_forms.f90"
    in%want(:n) = content(rank, 1, n)
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine write_own(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write
#define BUFFER file, out%at
#define ARGUMENTS file, out%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    call expect_block(written(), rank)
  end subroutine

  subroutine write_all(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write_all
#define BUFFER file, out%at
#define ARGUMENTS file, out%at, COUNT(n), MPI_INTEGER
#define SPLIT
#include "fortran/file_forms.f90"
    call expect_block(written(), rank)
  end subroutine

  subroutine write_at(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write_at
#define BUFFER file, out%at
#define ARGUMENTS file, offset(rank), out%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    call expect_block(written(), rank)
  end subroutine

  subroutine write_at_all(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write_at_all
#define BUFFER file, out%at
#define ARGUMENTS file, offset(rank), out%at, COUNT(n), MPI_INTEGER
#define SPLIT
#include "fortran/file_forms.f90"
    call expect_block(written(), rank)
  end subroutine

  subroutine write_shared(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write_shared
#define BUFFER file, out%at
#define ARGUMENTS file, out%at, COUNT(n), MPI_INTEGER
#include "fortran/file_forms.f90"
    call expect_any_order(written())
  end subroutine

  subroutine write_ordered(form)
    character, intent(in) :: form
    call open_file(rank)
#define NAME write_ordered
#define BUFFER file, out%at
#define ARGUMENTS file, out%at, COUNT(n), MPI_INTEGER
#define ORDERED
#define SPLIT
#include "fortran/file_forms.f90"
    call expect_block(written(), rank)
  end subroutine
end module
