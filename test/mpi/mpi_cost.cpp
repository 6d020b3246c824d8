// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_cost host|gpu: one rank makes kCalls calls of each of several kinds, on host memory, that
// need no transport; with gpu, in a process that uses one. For callgrind, which is to count the
// instructions of the functions measured_CALL alone. mpi_cost staged CALLS: so many of one kind on
// GPU memory. Exits with 77 without a CUDA driver.
#include <cstdlib>
#include <cstring>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kCalls = 1000; // cost_test.sh divides by it

double variables[2]; // in the program: valgrind hides its heap
double *const out = &variables[0], *const in = &variables[1];

} // namespace

#define MEASURE(call, ...)                                                                         \
    [[gnu::noinline]] static void make_##call(int calls)                                           \
    {                                                                                              \
        for (int i = 0; i < calls; ++i)                                                            \
            __VA_ARGS__;                                                                           \
    }                                                                                              \
    extern "C" [[gnu::noinline]] void measured_##call()                                            \
    {                                                                                              \
        make_##call(kCalls);                                                                       \
    }

MEASURE(Send, MPI_Send(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD))
MEASURE(Recv, MPI_Recv(in, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
MEASURE(Sendrecv, MPI_Sendrecv(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, in, 1, MPI_DOUBLE,
                               MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
MEASURE(Allreduce, MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF))
MEASURE(Isend_Wait, {
    MPI_Request request;
    MPI_Isend(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
})

namespace {

struct Kind {
    void (*make)(int calls);
    void (*measured)();
};

constexpr Kind kKinds[] = {
    {make_Send, measured_Send},
    {make_Recv, measured_Recv},
    {make_Sendrecv, measured_Sendrecv},
    {make_Allreduce, measured_Allreduce},
    {make_Isend_Wait, measured_Isend_Wait},
};

void make_staged(int calls)
{
    auto* const values = static_cast<double*>(gpu::allocate(2 * sizeof(double)));
    for (int i = 0; i < calls; ++i)
        MPI_Allreduce(&values[0], &values[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 2)
        return 2;
    if (std::strcmp(argv[1], "staged") == 0) {
        gpu::use();
        make_staged(std::atoi(argv[2]));
        MPI_Finalize();
        return 0;
    }
    if (std::strcmp(argv[1], "gpu") == 0) {
        gpu::use();
        gpu::allocate(4096);
    }
    for (const Kind& kind : kKinds) {
        kind.make(1); // what is looked up once
        kind.measured();
    }
    MPI_Finalize();
    return 0;
}
