// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_footprint host|cuda CALLS: some CALLS calls of MPI in two halves, of which the second does
// what the first did: blocking, non-blocking, persistent, one-sided and forgotten ones, with types
// that are made and freed, and such as fail. Prints by how many KiB and file descriptors the
// process has grown in the second half. Exits with 1 when a failing call does not fail, or another
// does, with 77 without a CUDA driver.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <mpi.h>

#include "gpu.hpp"
#include "growth.hpp"

namespace {

constexpr int kCount = 1000; // integers
int rank, ranks, wrong;
bool on_gpu;

int* allocate(int count)
{
    void* memory = on_gpu ? gpu::allocate(count * sizeof(int)) : std::calloc(count, sizeof(int));
    return static_cast<int*>(memory);
}

void expect(bool success, int result)
{
    if (success != (result == MPI_SUCCESS) && wrong++ == 0) {
        std::printf("rank %d: a call returned %d\n", rank, result);
    }
}

class Calls {
  public:
    Calls() : out_(allocate(2 * kCount)), in_(allocate(2 * kCount))
    {
        MPI_Win_create(allocate(kCount), kCount * sizeof(int), sizeof(int), MPI_INFO_NULL,
                       MPI_COMM_WORLD, &window_);
        MPI_Win_fence(0, window_);
    }
    ~Calls() { MPI_Win_free(&window_); }

    static constexpr int kNumber = 24;
    void make()
    {
        // Blocking: 3.
        expect(true, MPI_Allreduce(out_, in_, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        expect(true, MPI_Allgather(out_, 10, MPI_INT, in_, 10, MPI_INT, MPI_COMM_WORLD));
        expect(true, MPI_Reduce_local(out_, in_, kCount, MPI_INT, MPI_MAX));
        columns();
        persistent();
        forgotten();
        // One-sided: 2.
        expect(true, MPI_Put(out_, kCount, MPI_INT, next(), 0, kCount, MPI_INT, window_));
        expect(true, MPI_Win_fence(0, window_));
        failing();
    }

  private:
    static int next() { return (rank + 1) % ranks; }
    static int previous() { return (rank + ranks - 1) % ranks; }

    // A column there and back, of a type that is made for it: 4.
    void columns()
    {
        MPI_Datatype column;
        MPI_Type_vector(kCount, 1, 2, MPI_INT, &column);
        MPI_Type_commit(&column);
        MPI_Request requests[2];
        expect(true, MPI_Irecv(in_, 1, column, previous(), 7, MPI_COMM_WORLD, &requests[0]));
        expect(true, MPI_Isend(out_, 1, column, next(), 7, MPI_COMM_WORLD, &requests[1]));
        expect(true, MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MPI_Type_free(&column);
        // One of which nothing is left to be done when it is tested.
        MPI_Request request;
        expect(true, MPI_Isend(out_, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request));
        for (int done = 0; done == 0;) {
            expect(true, MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        }
    }

    // 7.
    void persistent()
    {
        MPI_Datatype column;
        MPI_Type_vector(10, 1, 2, MPI_INT, &column);
        MPI_Type_commit(&column);
        MPI_Request requests[2];
        expect(true, MPI_Recv_init(in_, 1, column, previous(), 8, MPI_COMM_WORLD, &requests[0]));
        expect(true, MPI_Send_init(out_, 1, column, next(), 8, MPI_COMM_WORLD, &requests[1]));
        for (int i = 0; i < 2; ++i) {
            expect(true, MPI_Startall(2, requests));
            expect(true, MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        }
        expect(true, MPI_Request_free(&requests[0]));
        expect(true, MPI_Request_free(&requests[1]));
        MPI_Type_free(&column);
    }

    // A send whose request is freed while it goes on: 3.
    void forgotten()
    {
        MPI_Datatype column;
        MPI_Type_vector(10, 1, 2, MPI_INT, &column);
        MPI_Type_commit(&column);
        MPI_Request request;
        expect(true, MPI_Isend(out_, 1, column, next(), 9, MPI_COMM_WORLD, &request));
        expect(true, MPI_Request_free(&request));
        expect(true, request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_REQUEST);
        expect(true, MPI_Recv(in_, 1, column, previous(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Type_free(&column);
    }

    // 5.
    void failing()
    {
        MPI_Request request = MPI_REQUEST_NULL;
        expect(false, MPI_Send(out_, 1, MPI_INT, ranks, 7, MPI_COMM_WORLD));
        expect(false, MPI_Allgather(out_, 10, MPI_DATATYPE_NULL, in_, 10, MPI_INT, MPI_COMM_WORLD));
        expect(false, MPI_Isend(out_, 1, MPI_INT, next(), -5, MPI_COMM_WORLD, &request));
        // Truncated: the message is longer than the buffer.
        MPI_Irecv(in_, 4, MPI_INT, previous(), 10, MPI_COMM_WORLD, &request);
        expect(true, MPI_Send(out_, 10, MPI_INT, next(), 10, MPI_COMM_WORLD));
        expect(false, MPI_Wait(&request, MPI_STATUS_IGNORE));
    }

    int *const out_, *const in_;
    MPI_Win window_;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc != 3) {
        return 2;
    }
    on_gpu = std::strcmp(argv[1], "cuda") == 0;
    if (on_gpu) {
        gpu::use();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    {
        Calls calls;
        Growth::print(rank, std::atoi(argv[2]) / Calls::kNumber, Calls::kNumber,
                      [&] { calls.make(); });
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
