! Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
!
! The forms of the call NAME, which sends or receives, with ARGUMENTS; STATUS is defined where it has one. The request "other"
! is the persistent one of what it sends to, or receives from.
    call start_other()
    select case (form)
    case ("b")
#ifdef STATUS
      call MPI_/**/NAME(ARGUMENTS, MPI_STATUS_IGNORE, ierror)
#else
      call MPI_/**/NAME(ARGUMENTS, ierror)
#endif
    case ("n")
      call MPI_I/**/NAME(ARGUMENTS, request, ierror)
      call wait()
#ifndef NOT_PERSISTENT
    case ("p")
      call MPI_/**/NAME/**/_init(ARGUMENTS, request, ierror)
      call MPI_Start(request, ierror)
      call wait()
      call MPI_Wait(other, MPI_STATUS_IGNORE, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      call refill()
      call start_other()
      call MPI_Start(request, ierror)
      call wait()
      call MPI_Request_free(request, ierror)
#endif
    end select
    call MPI_Wait(other, MPI_STATUS_IGNORE, ierror)
    call MPI_Request_free(other, ierror)
#undef NAME
#undef ARGUMENTS
#undef STATUS
#undef NOT_PERSISTENT
