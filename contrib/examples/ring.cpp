// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An array goes round all ranks, from GPU memory to GPU memory, by the CUDA runtime and MPI: two
// buffers, a stream and events. Each rank adds its mark on the way; what comes back is checked.
//
//   mpicxx -O2 -I$CUDA_HOME/include ring.cpp -o ring -L$CUDA_HOME/lib64 -lcudart
//   mpirun -n 2 ucx-gdr run ./ring [ELEMENTS]
//
// With nvcc: nvcc -cudart shared, since emulated GPUs are for the shared runtime library alone.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <cuda_runtime_api.h>
#include <mpi.h>

namespace {

#define CHECK(call) check(call, #call)
void check(cudaError_t result, const char* what)
{
    if (result != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, gpus;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int count = argc > 1 ? std::atoi(argv[1]) : 1 << 20;
    if (count < ranks) {
        std::fprintf(stderr, "usage: ring [ELEMENTS], as many as ranks at least\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK(cudaGetDeviceCount(&gpus));
    CHECK(cudaSetDevice(rank % gpus));

    const size_t size = count * sizeof(int);
    int *mine, *incoming, *host;
    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK(cudaMalloc(reinterpret_cast<void**>(&mine), size));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&incoming), size));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&host), size));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));

    for (int i = 0; i < count; ++i) {
        host[i] = rank * count + i;
    }
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaMemcpyAsync(mine, host, size, cudaMemcpyHostToDevice, stream));
    for (int step = 0; step < ranks; ++step) {
        // Every rank marks its own element; MPI gets memory in which nothing changes any more.
        CHECK(cudaMemsetAsync(mine + rank, 0xff, sizeof(int), stream));
        CHECK(cudaStreamSynchronize(stream));
        MPI_Sendrecv(mine, count, MPI_INT, (rank + 1) % ranks, step, incoming, count, MPI_INT,
                     (rank + ranks - 1) % ranks, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        std::swap(mine, incoming);
    }
    CHECK(cudaMemcpyAsync(host, mine, size, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));

    int wrong = 0, all_wrong = 0;
    for (int i = 0; i < count; ++i) {
        wrong += host[i] != (i < ranks ? -1 : rank * count + i);
    }
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("%d elements round %d ranks in %.3f ms, %d wrong\n", count, ranks, milliseconds,
                    all_wrong);
    }

    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(incoming));
    CHECK(cudaFree(mine));
    MPI_Finalize();
    return rank == 0 && all_wrong > 0 ? 1 : 0;
}
