// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation by Jacobi's method on GPUs (poisson.hpp), with MPI on a stream: all sweeps and
// messages are enqueued ahead of time, and the CPU waits once, at the end. Rank 0 compares the
// solution with what one CPU computes. Exits with 0 if they agree.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include enqueue.cpp -o enqueue -lucx-gdr -ldl
//   mpirun -n 4 ucx-gdr run ./enqueue [N] [SWEEPS]
#include "poisson.hpp"

#include <ucx-gdr/mpix.h>

namespace {

using poisson::Block;

// A communicator whose operations begin when the stream gets there.
MPI_Comm communicator_of(CUstream stream, MPIX_Stream* mpi)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof(stream));
    MPIX_Stream_create(info, mpi);
    MPI_Info_free(&info);
    MPI_Comm comm;
    MPIX_Stream_comm_create(MPI_COMM_WORLD, *mpi, &comm);
    return comm;
}

// The rows at the block's borders go to the neighbours, theirs come in beside them, and the stream
// goes on when all of that is done.
void exchange_borders(const Block& block, double* data, const poisson::Problem& problem,
                      MPI_Comm comm)
{
    const int count = static_cast<int>(block.stride());
    double* first = data + block.stride();
    double* last = data + block.rows * block.stride();
    constexpr int up = 1, down = 2;
    MPI_Request all[4];
    MPIX_Irecv_enqueue(data, count, MPI_DOUBLE, problem.above(), down, comm, &all[0]);
    MPIX_Irecv_enqueue(last + count, count, MPI_DOUBLE, problem.below(), up, comm, &all[1]);
    MPIX_Isend_enqueue(first, count, MPI_DOUBLE, problem.above(), up, comm, &all[2]);
    MPIX_Isend_enqueue(last, count, MPI_DOUBLE, problem.below(), down, comm, &all[3]);
    MPIX_Waitall_enqueue(4, all, MPI_STATUSES_IGNORE);
}

} // namespace

int main(int argc, char** argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    const poisson::Problem problem(argc > 1 ? std::atoi(argv[1]) : 256);
    const int sweeps = poisson::times(argc, argv, 100, "enqueue [N] [SWEEPS]");
    gpu::choose();

    const Block block = problem.block();
    poisson::StreamSweep sweep(block, problem.source());
    gpu::Buffer<double> a(std::vector<double>(block.size())), b(std::vector<double>(block.size()));
    gpu::Buffer<double>*in = &a, *out = &b;
    CUstream stream;
    GPU_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MPIX_Stream mpi;
    MPI_Comm comm = communicator_of(stream, &mpi);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < sweeps; ++i) {
        sweep.enqueue(in->data(), out->data(), stream);
        exchange_borders(block, out->data(), problem, comm);
        std::swap(in, out);
    }
    const double enqueued = MPI_Wtime() - start;
    GPU_CALL(cuStreamSynchronize, stream);
    const double seconds = MPI_Wtime() - start;
    MPI_Comm_free(&comm);
    MPIX_Stream_free(&mpi);
    std::printf("rank %d: enqueued within %.3f of %.3f ms\n", problem.rank, 1e3 * enqueued,
                1e3 * seconds);
    const int status =
        problem.judge(in->get(block.size()), sweeps, seconds,
                      sweep.by_kernel() ? "by kernel, in a stream" : "by CPU, in a stream");
    MPI_Finalize();
    return status;
}
