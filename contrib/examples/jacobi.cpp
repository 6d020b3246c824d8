// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation -(u_xx + u_yy) = 1 on the unit square, u = 0 on its border, by Jacobi's method
// on GPUs: N x N inner points, in blocks of rows, one a rank. After every sweep the ranks exchange
// the rows at their borders, out of GPU memory into GPU memory. At the end rank 0 gathers the
// solution and compares it with what one CPU computes. Exits with 0 if they agree.
//
//   mpicxx -std=c++20 -O2 -I/usr/local/cuda/include jacobi.cpp -o jacobi -ldl
//   mpirun -n 4 ucx-gdr run ./jacobi [N] [SWEEPS]
//
// A GPU sweeps by a kernel, given as PTX, so that no CUDA compiler is needed. The emulated driver
// runs no kernels: there the same arithmetic is done by the CPU, on copies.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu.hpp"

namespace {

// One row more at each border: a neighbour's, or the square's. Columns likewise.
struct Block {
    unsigned columns, rows; // inner ones
    size_t stride() const { return columns + 2; }
    size_t size() const { return stride() * (rows + 2); }
};

// Every inner point becomes the mean of its neighbours plus a quarter of source. The order of the
// additions is the kernel's, so that results are equal to the last bit.
void sweep_by_cpu(const Block& block, double source, const double* in, double* out)
{
    for (unsigned row = 1; row <= block.rows; ++row) {
        const double* at = in + row * block.stride();
        for (unsigned column = 1; column <= block.columns; ++column) {
            const double vertical = at[column - block.stride()] + at[column + block.stride()];
            const double horizontal = at[column - 1] + at[column + 1];
            out[row * block.stride() + column] = (vertical + horizontal + source) * 0.25;
        }
    }
}

// The same: a thread for each column, a row of thread blocks for each row.
constexpr char kKernel[] = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry sweep(.param .u32 columns, .param .f64 source, .param .u64 in, .param .u64 out)
{
    .reg .pred %beyond;
    .reg .u32 %r<5>;
    .reg .u64 %at, %stride, %here, %there, %in, %out;
    .reg .f64 %f<6>;

    mov.u32 %r0, %ctaid.x;              // column, from 0
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    ld.param.u32 %r1, [columns];
    setp.ge.u32 %beyond, %r0, %r1;
    @%beyond ret;

    mov.u32 %r2, %ctaid.y;              // row, from 0
    add.u32 %r2, %r2, 1;
    add.u32 %r3, %r1, 2;
    add.u32 %r4, %r0, 1;
    mul.wide.u32 %at, %r2, %r3;
    cvt.u64.u32 %here, %r4;
    add.u64 %at, %at, %here;
    shl.b64 %at, %at, 3;                // bytes
    mul.wide.u32 %stride, %r3, 8;

    ld.param.u64 %in, [in];
    cvta.to.global.u64 %in, %in;
    add.u64 %here, %in, %at;
    sub.u64 %there, %here, %stride;
    ld.global.f64 %f0, [%there];
    add.u64 %there, %here, %stride;
    ld.global.f64 %f1, [%there];
    ld.global.f64 %f2, [%here+-8];
    ld.global.f64 %f3, [%here+8];
    ld.param.f64 %f4, [source];
    add.rn.f64 %f0, %f0, %f1;
    add.rn.f64 %f2, %f2, %f3;
    add.rn.f64 %f0, %f0, %f2;
    add.rn.f64 %f0, %f0, %f4;
    mul.rn.f64 %f0, %f0, 0d3FD0000000000000;

    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    add.u64 %here, %out, %at;
    st.global.f64 [%here], %f0;
    ret;
}
)";

class Sweep {
  public:
    Sweep()
    {
        CUmodule module;
        const CUresult result = GPU_TRY(cuModuleLoadData, &module, kKernel);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            return;
        gpu::check(result, "cuModuleLoadData");
        GPU_CALL(cuModuleGetFunction, &kernel_, module, "sweep");
    }

    bool by_kernel() const { return kernel_ != nullptr; }

    // Complete when it returns: what it wrote may be sent.
    void operator()(const Block& block, double source, gpu::Buffer<double>& in,
                    gpu::Buffer<double>& out) const
    {
        if (by_kernel()) {
            constexpr unsigned threads = 128;
            unsigned columns = block.columns;
            double *from = in.data(), *to = out.data();
            void* arguments[] = {&columns, &source, &from, &to};
            GPU_CALL(cuLaunchKernel, kernel_, (columns + threads - 1) / threads, block.rows, 1,
                     threads, 1, 1, 0, nullptr, arguments, nullptr);
            GPU_CALL(cuCtxSynchronize);
        } else {
            std::vector<double> result = out.get(block.size());
            sweep_by_cpu(block, source, in.get(block.size()).data(), result.data());
            out.set(result);
        }
    }

  private:
    CUfunction kernel_ = nullptr;
};

// The rows at the block's borders go to the neighbours, theirs come in beside them.
void exchange_borders(const Block& block, double* data, int above, int below)
{
    const int count = static_cast<int>(block.stride());
    double* first = data + block.stride();
    double* last = data + block.rows * block.stride();
    MPI_Sendrecv(first, count, MPI_DOUBLE, above, 0, last + count, count, MPI_DOUBLE, below, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, count, MPI_DOUBLE, below, 1, data, count, MPI_DOUBLE, above, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

std::vector<double> solve_by_cpu(const Block& square, double source, int sweeps)
{
    std::vector<double> in(square.size()), out(square.size());
    for (int i = 0; i < sweeps; ++i) {
        sweep_by_cpu(square, source, in.data(), out.data());
        std::swap(in, out);
    }
    return in;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int n = argc > 1 ? std::atoi(argv[1]) : 256;
    const int sweeps = argc > 2 ? std::atoi(argv[2]) : 100;
    if (n < ranks || n > 65535 || sweeps < 1)
        gpu::fail("usage", "jacobi [N] [SWEEPS], with N from the number of ranks to 65535");
    gpu::choose();

    const auto first_row = [&](int of_rank) {
        return static_cast<unsigned>(1l * n * of_rank / ranks);
    };
    const auto columns = static_cast<unsigned>(n);
    const Block block{columns, first_row(rank + 1) - first_row(rank)};
    const double source =
        1.0 / (n + 1) / (n + 1); // the right side, times the square of the mesh width
    const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;

    const Sweep sweep;
    gpu::Buffer<double> a(std::vector<double>(block.size())), b(std::vector<double>(block.size()));
    gpu::Buffer<double>*in = &a, *out = &b;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < sweeps; ++i) {
        sweep(block, source, *in, *out);
        exchange_borders(block, out->data(), above, below);
        std::swap(in, out);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - start;

    // The inner rows: sent from GPU memory, received in host memory.
    const int count = static_cast<int>(block.rows * block.stride());
    if (rank > 0) {
        MPI_Send(in->data() + block.stride(), count, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    const Block square{columns, columns};
    std::vector<double> solution = in->get(block.size());
    solution.resize(square.size());
    for (int r = 1; r < ranks; ++r) {
        const unsigned rows = first_row(r + 1) - first_row(r);
        MPI_Recv(&solution[(first_row(r) + 1) * square.stride()],
                 static_cast<int>(rows * square.stride()), MPI_DOUBLE, r, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    MPI_Finalize();

    const std::vector<double> expected = solve_by_cpu(square, source, sweeps);
    double error = 0, highest = 0;
    for (size_t i = 0; i + square.stride() < square.size(); ++i) { // without the border below
        error = std::max(error, std::fabs(solution[i] - expected[i]));
        highest = std::max(highest, solution[i]);
    }
    std::printf("%d x %d points, %d sweeps by %s on %d ranks: %.3f ms a sweep, highest %.6f\n", n,
                n, sweeps, sweep.by_kernel() ? "kernel" : "CPU", ranks, 1e3 * seconds / sweeps,
                highest);
    std::printf("largest difference from the serial solution: %g\n", error);
    return error <= 1e-14 && highest > 0 ? 0 : 1;
}
