! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The call NAME with ARGUMENTS, and its status, or, where SEVERAL is defined, its statuses, which the form may ignore.
      if (form /= "i") then
#ifdef SEVERAL
        call MPI_/**/NAME(ARGUMENTS, statuses, ierror)
      else
        call MPI_/**/NAME(ARGUMENTS, MPI_STATUSES_IGNORE, ierror)
#else
        call MPI_/**/NAME(ARGUMENTS, STATUS_AT(statuses, 1), ierror)
      else
        call MPI_/**/NAME(ARGUMENTS, MPI_STATUS_IGNORE, ierror)
#endif
      end if
#undef NAME
#undef ARGUMENTS
#undef SEVERAL
