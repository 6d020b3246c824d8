! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! Prints the kinds of memory that the world's info tells, in the binding of mpi_binding.f90.
program mpi_info_kinds
#include "mpi_binding.f90"
  interface
    integer(c_int) function init(flags) bind(C, name="cuInit")
      import; integer(c_int), value :: flags
    end function
  end interface
  HANDLE(MPI_Info) :: info
  integer, parameter :: longest = 200
  character(longest) :: kinds
  logical :: found
  integer :: ierror

  if (init(0) /= 0) stop 77
  call MPI_Init(ierror)
  call MPI_Comm_get_info(MPI_COMM_WORLD, info, ierror)
  kinds = ""
  call MPI_Info_get(info, "mpi_memory_alloc_kinds", longest, kinds, found, ierror)
  call MPI_Info_free(info, ierror)
  call MPI_Finalize(ierror)
  if (.not. found) stop 1
  print '(a)', trim(kinds)
end program
