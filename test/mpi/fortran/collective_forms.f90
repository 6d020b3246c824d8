! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The forms of the collective call NAME with ARGUMENTS.
    select case (form)
    case ("b")
      call MPI_/**/NAME(ARGUMENTS, ierror)
    case ("n")
      call MPI_I/**/NAME(ARGUMENTS, request, ierror)
      call wait()
    case ("p")
#ifdef OPEN_MPI_4
      call MPIX_/**/NAME/**/_init(ARGUMENTS, MPI_INFO_NULL, request, ierror)
#else
      call MPI_/**/NAME/**/_init(ARGUMENTS, MPI_INFO_NULL, request, ierror)
#endif
      call start_twice()
    end select
#undef NAME
#undef ARGUMENTS
