// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The large forms of calls as mpi4py makes them: by weak references. Exits with 0, or names what is
// wrong; 77: the MPI library has none.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

typedef const MPI_Count counts[];
typedef const MPI_Aint displs[];
#pragma weak MPI_Send_c
#pragma weak MPI_Recv_c
#pragma weak MPI_Allgatherv_c
#pragma weak MPI_Gatherv_c
#pragma weak MPI_Ialltoallv_c
#pragma weak MPI_Neighbor_alltoallv_c
#pragma weak MPI_Reduce_scatter_c
#pragma weak MPI_Pack_c
#pragma weak MPI_Buffer_attach_c
#pragma weak MPI_Buffer_detach_c
int MPI_Send_c(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
int MPI_Recv_c(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);
int MPI_Allgatherv_c(const void*, MPI_Count, MPI_Datatype, void*, counts, displs, MPI_Datatype,
                     MPI_Comm);
int MPI_Gatherv_c(const void*, MPI_Count, MPI_Datatype, void*, counts, displs, MPI_Datatype, int,
                  MPI_Comm);
int MPI_Ialltoallv_c(const void*, counts, displs, MPI_Datatype, void*, counts, displs, MPI_Datatype,
                     MPI_Comm, MPI_Request*);
int MPI_Neighbor_alltoallv_c(const void*, counts, displs, MPI_Datatype, void*, counts, displs,
                             MPI_Datatype, MPI_Comm);
int MPI_Reduce_scatter_c(const void*, void*, counts, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Buffer_attach_c(void*, MPI_Count);
int MPI_Buffer_detach_c(void*, MPI_Count*);
int MPI_Pack_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Count*, MPI_Comm);

static int failed = 0, rank;

static void expect(int truth, const char* what)
{
    if (truth) {
        return;
    }
    printf("rank %d: %s is wrong\n", rank, what);
    failed = 1;
}

static long resident_pages(void)
{
    long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1) {
        pages = 0;
    }
    if (file) {
        fclose(file);
    }
    return pages;
}

// Arrays of ever other contents, which MPI may read until the request is complete.
static void is_not_kept(void)
{
    enum { CALLS = 20000, MOST_PAGES = 128 };
    static int in[2 * CALLS];
    const MPI_Count one[] = {1};
    const MPI_Aint first[] = {0};
    memset(in, -1, sizeof(in));
    long before = 0;
    for (int i = 0; i < 2 * CALLS; ++i) {
        if (i == CALLS) {
            before = resident_pages();
        }
        MPI_Request request;
        MPI_Aint place[] = {i};
        MPI_Ialltoallv_c(&i, one, first, MPI_INT, in, one, place, MPI_INT, MPI_COMM_SELF, &request);
        place[0] = -1;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(in[i] == i, "MPI_Ialltoallv_c to itself");
    }
    const long more = resident_pages() - before;
    if (more > MOST_PAGES) {
        printf("rank %d: %d calls have made the process %ld pages larger\n", rank, CALLS, more);
    }
    expect(more <= MOST_PAGES, "what is kept of arrays");
}

int main(int argc, char** argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!MPI_Send_c || !MPI_Gatherv_c) {
        MPI_Finalize();
        return 77;
    }
    const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, mine = 100 + rank;

    int got = -1;
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, last, 0, MPI_COMM_WORLD, &request);
    expect(!MPI_Send_c(&mine, 1, MPI_INT, next, 0, MPI_COMM_WORLD), "MPI_Send_c");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got == 100 + last, "what MPI_Send_c sent");
    MPI_Isend(&mine, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &request);
    got = -1;
    expect(!MPI_Recv_c(&got, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv_c");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got == 100 + last, "what MPI_Recv_c received");

    // One element from and to each, in reverse order.
    MPI_Count one[64];
    MPI_Aint reverse[64];
    int out[64], in[64];
    for (int i = 0; i < ranks; ++i) {
        one[i] = 1;
        reverse[i] = ranks - 1 - i;
        out[ranks - 1 - i] = 100 * rank + i;
    }
    memset(in, -1, sizeof(in));
    MPI_Allgatherv_c(&mine, 1, MPI_INT, in, one, reverse, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i) {
        expect(in[ranks - 1 - i] == 100 + i, "MPI_Allgatherv_c");
    }
    memset(in, -1, sizeof(in));
    // Not significant elsewhere than at the root: not to be looked at.
    MPI_Gatherv_c(&mine, 1, MPI_INT, in, rank == 0 ? one : (MPI_Count*)8,
                  rank == 0 ? reverse : (MPI_Aint*)8, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < ranks && rank == 0; ++i) {
        expect(in[ranks - 1 - i] == 100 + i, "MPI_Gatherv_c");
    }
    memset(in, -1, sizeof(in));
    MPI_Ialltoallv_c(out, one, reverse, MPI_INT, in, one, reverse, MPI_INT, MPI_COMM_WORLD,
                     &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < ranks; ++i) {
        expect(in[ranks - 1 - i] == 100 * i + rank, "MPI_Ialltoallv_c");
    }
    int sum = -1;
    for (int i = 0; i < ranks; ++i) {
        out[i] = i + rank;
    }
    MPI_Reduce_scatter_c(out, &sum, one, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == ranks * rank + ranks * (ranks - 1) / 2, "MPI_Reduce_scatter_c");

    is_not_kept();

    MPI_Comm ring;
    const int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
    const int to[2] = {10 * rank, 10 * rank + 1}; // to the one before, and to the one behind
    memset(in, -1, sizeof(in));
    MPI_Neighbor_alltoallv_c(to, one, (MPI_Aint[]){0, 1}, MPI_INT, in, one, (MPI_Aint[]){1, 0},
                             MPI_INT, ring);
    // Of two ranks each is both neighbours of the other, and which message is which is not said.
    if (ranks > 2) {
        expect(in[1] == 10 * last + 1 && in[0] == 10 * next, "MPI_Neighbor_alltoallv_c");
    }

    MPI_Count position = 4;
    memset(in, -1, sizeof(in));
    MPI_Pack_c(&mine, 1, MPI_INT, in, sizeof(in), &position, MPI_COMM_WORLD);
    expect(position == 8 && in[0] == -1 && in[1] == mine, "MPI_Pack_c");

    static char room[MPI_BSEND_OVERHEAD + 4096];
    void* detached = NULL;
    MPI_Count size = -1;
    MPI_Buffer_attach_c(room, sizeof(room));
    MPI_Buffer_detach_c(&detached, &size);
    expect(detached == room && size == sizeof(room), "MPI_Buffer_detach_c");

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Send_c(&mine, -(1LL << 40), MPI_INT, next, 0, MPI_COMM_WORLD) != MPI_SUCCESS,
           "a count that no message has");
    MPI_Finalize();
    return failed;
}
