! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The forms of the call NAME on a file with ARGUMENTS, which end with BUFFER, n and MPI_INTEGER. ORDERED has no non-blocking one,
! SPLIT one in two parts.
    select case (form)
    case ("b")
      call MPI_File_/**/NAME(ARGUMENTS, MPI_STATUS_IGNORE, ierror)
#ifndef ORDERED
    case ("n")
      call MPI_File_i/**/NAME(ARGUMENTS, request, ierror)
      call wait()
#endif
#ifdef SPLIT
    case ("s")
      call MPI_File_/**/NAME/**/_begin(ARGUMENTS, ierror)
      call MPI_File_/**/NAME/**/_end(BUFFER, MPI_STATUS_IGNORE, ierror)
#endif
    end select
#undef NAME
#undef ARGUMENTS
#undef ORDERED
#undef SPLIT
#undef BUFFER
