// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_pready ROUNDS: partitioned messages of GPU memory from rank 0 to rank 1 by four threads of
// each, with MPI_THREAD_MULTIPLE: each thread fills its partitions and tells MPI of them, in an
// order of its own, or asks for those that have arrived and looks at them. Exits with 0, with 1
// when an element is wrong, with 77 where MPI has no such calls or threads.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

#if MPI_VERSION < 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 5)
int main()
{
    return 77;
}
#else
namespace {

constexpr int kThreads = 4, kEach = 4, kPartitions = kThreads * kEach, kCount = 1500;
int* memory;
std::atomic<int> wrong{0};

std::vector<int> content(int round, int partition)
{
    std::vector<int> values(kCount);
    std::iota(values.begin(), values.end(), 1000000 * round + kCount * partition);
    return values;
}

// A thread's partitions lie between those of others.
std::vector<int> shuffled(int round, int thread)
{
    std::vector<int> partitions;
    for (int i = 0; i < kEach; ++i) {
        partitions.push_back(i * kThreads + thread);
    }
    std::ranges::shuffle(partitions,
                         std::mt19937(static_cast<unsigned>(kThreads * round + thread)));
    return partitions;
}

void send(MPI_Request request, int round, int thread)
{
    gpu::use();
    for (int partition : shuffled(round, thread)) {
        gpu::copy(memory + partition * kCount, content(round, partition).data(),
                  kCount * sizeof(int));
        MPI_Pready(partition, request);
    }
}

void receive(MPI_Request request, int round, int thread)
{
    gpu::use();
    for (int partition : shuffled(round, thread)) {
        for (int arrived = 0; arrived == 0;) {
            MPI_Parrived(request, partition, &arrived);
        }
        std::vector<int> values(kCount);
        gpu::copy(values.data(), memory + partition * kCount, kCount * sizeof(int));
        if (values != content(round, partition) && wrong++ == 0) {
            std::printf("round %d: partition %d begins with %d\n", round, partition, values[0]);
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    int provided = 0, rank = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::use();
    memory = static_cast<int*>(gpu::allocate(kPartitions * kCount * sizeof(int)));
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init(memory, kPartitions, kCount, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    } else {
        MPI_Precv_init(memory, kPartitions, kCount, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    }
    for (int round = 0; round < std::atoi(argv[1]) && provided == MPI_THREAD_MULTIPLE; ++round) {
        MPI_Start(&request);
        std::vector<std::thread> threads;
        for (int thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back(rank == 0 ? send : receive, request, round, thread);
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Finalize();
    if (provided != MPI_THREAD_MULTIPLE) {
        return 77;
    }
    return wrong == 0 ? 0 : 1;
}
#endif
