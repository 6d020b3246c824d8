! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The forms of the call NAME, which sends and receives, with ARGUMENTS.
    if (form == "b") then
      call MPI_/**/NAME(ARGUMENTS, MPI_STATUS_IGNORE, ierror)
#ifndef OPEN_MPI_4
    else
      call MPI_I/**/NAME(ARGUMENTS, request, ierror)
      call wait()
#endif
    end if
#undef NAME
#undef ARGUMENTS
