/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/* For mpix.cpp: mpix.h in C. */
#include "sync/ucx-gdr/mpix.h"

int send_in_c(const int* number, int to, MPI_Comm comm);

int send_in_c(const int* number, int to, MPI_Comm comm)
{
    MPI_Request request;
    int error = MPIX_Isend_enqueue(number, 1, MPI_INT, to, 0, comm, &request);

    if (error == MPI_SUCCESS) {
        error = MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
    }
    return error;
}
