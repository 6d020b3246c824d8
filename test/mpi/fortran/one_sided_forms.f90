! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The forms of the one-sided call NAME with ARGUMENTS, in an epoch of fences or, with a request, of locks.
    if (form == "b") then
      call MPI_/**/NAME(ARGUMENTS, window, ierror)
    else
      call MPI_R/**/NAME(ARGUMENTS, window, request, ierror)
      call wait()
    end if
    call end_epoch(form)
#undef NAME
#undef ARGUMENTS
