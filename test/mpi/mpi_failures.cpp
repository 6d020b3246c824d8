// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_failures ROUND [COUNT]: ten times the ranks sum up numbers on a GPU each, of which the call
// of that round (from 1 on; 0: none) is to fail, on all ranks, with MPI_ERR_OTHER, and all others
// are to be right. A rank without a GPU has its numbers in host memory. Each rank prints what was
// not so, and exits with 1 then; with 77 without a CUDA driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

int main(int argc, char** argv)
{
    if (argc < 2) {
        return 2;
    }
    const int failing = std::atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank, ranks, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const bool has_gpu = gpu::exists();
    if (has_gpu) {
        gpu::use(rank);
    }
    const int count = argc > 2 ? std::atoi(argv[2]) : 200000;
    const size_t bytes = static_cast<size_t>(count) * sizeof(int);
    std::vector<int> numbers(bytes / sizeof(int)), host_in(numbers), host_out(numbers);
    void* const in = has_gpu ? gpu::allocate(bytes) : host_in.data();
    void* const out = has_gpu ? gpu::allocate(bytes) : host_out.data();
    const auto copy = [&](void* to, const void* from) {
        if (has_gpu) {
            gpu::copy(to, from, bytes);
        } else {
            std::memcpy(to, from, bytes);
        }
    };
    for (int round = 1; round <= 10; ++round) {
        std::fill(numbers.begin(), numbers.end(), round + rank);
        copy(in, numbers.data());
        int error = MPI_SUCCESS;
        const int result = MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Error_class(result, &error);
        copy(numbers.data(), out);
        const int sum = ranks * round + ranks * (ranks - 1) / 2;
        if (error != (round == failing ? MPI_ERR_OTHER : MPI_SUCCESS) ||
            (round != failing && std::count(numbers.begin(), numbers.end(), sum) != count)) {
            std::printf("rank %d: round %d: error class %d, sum %d, not %d\n", rank, round, error,
                        numbers[0], sum);
            ++wrong;
        }
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
