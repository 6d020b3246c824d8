// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_death host|cuda COUNT: the ranks reduce COUNT numbers and exchange them, over and over, until
// rank 1 is killed in the midst of it. What becomes of the others is the MPI library's business;
// those who are told of an error end with 3.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <mpi.h>

#include "gpu.hpp"

int main(int argc, char** argv)
{
    if (argc != 3) {
        return 2;
    }
    const bool on_gpu = std::strcmp(argv[1], "cuda") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (on_gpu) {
        gpu::use(rank);
    }
    const int count = std::atoi(argv[2]) / ranks * ranks;
    const size_t bytes = static_cast<size_t>(count) * sizeof(double);
    void* const out = on_gpu ? gpu::allocate(bytes) : std::calloc(bytes, 1);
    void* const in = on_gpu ? gpu::allocate(bytes) : std::calloc(bytes, 1);
    std::thread killer;
    for (int round = 0;; ++round) {
        if (MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS ||
            MPI_Alltoall(out, count / ranks, MPI_DOUBLE, in, count / ranks, MPI_DOUBLE,
                         MPI_COMM_WORLD) != MPI_SUCCESS) {
            return 3;
        }
        if (round == 5 && rank == 1) {
            killer = std::thread([] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                std::raise(SIGKILL);
            });
        }
        if (round == 5 && rank == 0) {
            std::puts("all ranks are at it");
            std::fflush(stdout);
        }
    }
}
