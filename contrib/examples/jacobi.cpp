// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation by Jacobi's method on GPUs (poisson.hpp): N x N inner points, in blocks of
// rows, one a rank. After every sweep the ranks exchange the rows at their borders, out of GPU
// memory into GPU memory. At the end rank 0 compares the solution with what one CPU computes. Exits
// with 0 if they agree.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include jacobi.cpp -o jacobi -ldl
//   mpirun -n 4 ucx-gdr run ./jacobi [N] [SWEEPS]
//
// Where the driver runs no kernels the same arithmetic is done by the CPU, on copies.
#include "poisson.hpp"

namespace {

using poisson::Block;

// Complete when it returns: what it wrote may be sent.
void sweep(const poisson::Kernel& kernel, const Block& block, double source,
           gpu::Buffer<double>& in, gpu::Buffer<double>& out)
{
    if (kernel.runs()) {
        kernel.launch(block, source, in.data(), out.data(), nullptr);
        GPU_CALL(cuCtxSynchronize);
    } else {
        std::vector<double> result = out.get(block.size());
        poisson::sweep_by_cpu(block, source, in.get(block.size()).data(), result.data());
        out.set(result);
    }
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const poisson::Problem problem(argc > 1 ? std::atoi(argv[1]) : 256);
    const int sweeps = poisson::times(argc, argv, 100, "jacobi [N] [SWEEPS]");
    gpu::choose();

    const Block block = problem.block();
    const poisson::Kernel kernel;
    gpu::Buffer<double> a(std::vector<double>(block.size())), b(std::vector<double>(block.size()));
    gpu::Buffer<double>*in = &a, *out = &b;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < sweeps; ++i) {
        sweep(kernel, block, problem.source(), *in, *out);
        poisson::exchange_borders(block, out->data(), problem.above(), problem.below());
        std::swap(in, out);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - start;
    const int status = problem.judge(in->get(block.size()), sweeps, seconds,
                                     kernel.runs() ? "by kernel" : "by CPU");
    MPI_Finalize();
    return status;
}
