// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_progress receive|accumulate: rank 1 dies in a call without buffers, in which its MPI library
// progresses an operation on GPU memory: a receive that it began before, into every other integer;
// or rank 0's MPI_Accumulate into its window.
#include <cstdio>
#include <string>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kCount = 16;

void* gpu_memory()
{
    gpu::use();
    return gpu::allocate(2 * kCount * sizeof(int));
}

void receive(int rank)
{
    std::vector<int> data(kCount, 7);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype every_other;
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    if (rank == 1) {
        MPI_Irecv(gpu_memory(), 1, every_other, 0, 7, MPI_COMM_WORLD, &request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(data.data(), kCount, MPI_INT, 1, 7, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void accumulate(int rank)
{
    std::vector<int> data(kCount, 7);
    MPI_Win window;
    MPI_Win_create(rank == 1 ? gpu_memory() : data.data(), kCount * sizeof(int), sizeof(int),
                   MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 0) {
        MPI_Accumulate(data.data(), kCount, MPI_INT, 1, 0, kCount, MPI_INT, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
}

} // namespace

int main(int argc, char** argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    argc > 1 && std::string(argv[1]) == "accumulate" ? accumulate(rank) : receive(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    std::fprintf(stderr, "rank %d lives\n", rank);
    MPI_Finalize();
}
