// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation -(u_xx + u_yy) = 1 on the unit square, u = 0 on its border: N x N inner
// points, in blocks of rows, one a rank. Sweeps of Jacobi's method by a kernel, given as PTX, so
// that no CUDA compiler is needed, and by the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "gpu.hpp"

namespace poisson {

// One row more at each border: a neighbour's, or the square's. Columns likewise.
struct Block {
    unsigned columns, rows; // inner ones
    size_t stride() const { return columns + 2; }
    size_t size() const { return stride() * (rows + 2); }
    // The inner rows, of which the first and last columns are always 0.
    size_t inner() const { return stride() * rows; }
};

// The rows at the block's borders go to the neighbours, theirs come in beside them.
inline void exchange_borders(const Block& block, double* data, int above, int below)
{
    const int count = static_cast<int>(block.stride());
    double* first = data + block.stride();
    double* last = data + block.rows * block.stride();
    MPI_Sendrecv(first, count, MPI_DOUBLE, above, 0, last + count, count, MPI_DOUBLE, below, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, count, MPI_DOUBLE, below, 1, data, count, MPI_DOUBLE, above, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Every inner point becomes the mean of its neighbours plus a quarter of source. The order of the
// additions is the kernel's, so that results are equal to the last bit.
inline void sweep_by_cpu(const Block& block, double source, const double* in, double* out)
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

// What kernels in PTX begin with.
inline constexpr char kPtxVersion[] = R"(
.version 6.0
.target sm_50
.address_size 64
)";

// The beginning of a kernel with the parameters columns, in and out, by a thread for each column,
// a row of thread blocks for each row: %at is the point's place in bytes, %here its address, and
// %f0 to %f3 are its neighbours' values.
inline constexpr char kPtxNeighbours[] = R"({
    .reg .pred %beyond;
    .reg .u32 %r<5>;
    .reg .u64 %at, %stride, %here, %there, %in, %out;
    .reg .f64 %f<5>;

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
)";

// The same as sweep_by_cpu.
inline std::string sweep_kernel()
{
    return std::string(kPtxVersion) +
           R"(
.visible .entry sweep(.param .u32 columns, .param .f64 source, .param .u64 in, .param .u64 out)
)" + kPtxNeighbours +
           R"(    ld.param.f64 %f4, [source];
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
}

class Kernel {
  public:
    Kernel()
    {
        CUmodule module;
        const CUresult result = GPU_TRY(cuModuleLoadData, &module, sweep_kernel().c_str());
        if (result == CUDA_ERROR_NOT_SUPPORTED) {
            return;
        }
        gpu::check(result, "cuModuleLoadData");
        GPU_CALL(cuModuleGetFunction, &kernel_, module, "sweep");
    }

    // The emulated driver runs no kernels: there it is the CPU that has to sweep.
    bool runs() const { return kernel_ != nullptr; }

    void launch(const Block& block, double source, double* in, double* out, CUstream stream) const
    {
        constexpr unsigned threads = 128;
        unsigned columns = block.columns;
        void* arguments[] = {&columns, &source, &in, &out};
        GPU_CALL(cuLaunchKernel, kernel_, (columns + threads - 1) / threads, block.rows, 1, threads,
                 1, 1, 0, stream, arguments, nullptr);
    }

  private:
    CUfunction kernel_ = nullptr;
};

// Sweeps in the order of a stream, which may be captured. Where the driver runs no kernels a host
// function does the same arithmetic, on copies.
class StreamSweep {
  public:
    StreamSweep(const Block& block, double source)
        : block_(block), source_(source), host_in_(host_memory(block.size())),
          host_out_(host_memory(block.size()))
    {
    }
    ~StreamSweep()
    {
        GPU_CALL(cuMemFreeHost, host_in_);
        GPU_CALL(cuMemFreeHost, host_out_);
    }
    StreamSweep(const StreamSweep&) = delete;
    StreamSweep& operator=(const StreamSweep&) = delete;

    bool by_kernel() const { return kernel_.runs(); }

    void enqueue(double* in, double* out, CUstream stream)
    {
        if (by_kernel()) {
            kernel_.launch(block_, source_, in, out, stream);
            return;
        }
        GPU_CALL(cuMemcpyDtoHAsync, host_in_, reinterpret_cast<CUdeviceptr>(in),
                 block_.size() * sizeof(double), stream);
        GPU_CALL(
            cuLaunchHostFunc, stream,
            [](void* self) {
                auto& sweep = *static_cast<StreamSweep*>(self);
                sweep_by_cpu(sweep.block_, sweep.source_, sweep.host_in_, sweep.host_out_);
            },
            this);
        GPU_CALL(cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(out + block_.stride()),
                 host_out_ + block_.stride(), block_.inner() * sizeof(double),
                 stream); // the rows beside these are others'
    }

  private:
    // Of other host memory CUDA would make its copies at once.
    static double* host_memory(size_t count)
    {
        void* memory;
        GPU_CALL(cuMemHostAlloc, &memory, count * sizeof(double), 0u);
        return static_cast<double*>(memory);
    }

    const Block block_;
    const double source_;
    const Kernel kernel_;
    double* const host_in_;
    double* const host_out_;
};

// The second argument: how many sweeps or iterations, at least one.
inline int times(int argc, char** argv, int otherwise, const char* usage)
{
    const int times = argc > 2 ? std::atoi(argv[2]) : otherwise;
    if (times < 1) {
        gpu::fail("usage", usage);
    }
    return times;
}

// The square and this rank's share of it.
class Problem {
  public:
    // At least as many points as ranks.
    explicit Problem(int points) : n(points)
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        if (n < ranks || n > 65535) {
            gpu::fail("usage", "N is from the number of ranks to 65535");
        }
    }

    Block block() const { return block_of(rank); }
    Block block_of(int one) const
    {
        return {static_cast<unsigned>(n), first_row(one + 1) - first_row(one)};
    }
    unsigned first_row(int of_rank) const
    {
        return static_cast<unsigned>(1l * n * of_rank / ranks);
    }
    // The right side, times the square of the mesh width.
    double source() const { return 1.0 / (n + 1) / (n + 1); }
    int above() const { return rank > 0 ? rank - 1 : MPI_PROC_NULL; }
    int below() const { return rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL; }

    // Rank 0 gathers the blocks, and compares with what one CPU computes. The program's status: 0
    // if they agree. how: by what, with what.
    int judge(const std::vector<double>& own, int sweeps, double seconds, const char* how) const
    {
        const Block square{static_cast<unsigned>(n), static_cast<unsigned>(n)};
        std::vector<double> solution(rank == 0 ? square.size() : 0);
        std::vector<int> counts, places;
        for (int r = 0; r < ranks; ++r) {
            counts.push_back(static_cast<int>(block_of(r).rows * square.stride()));
            places.push_back(static_cast<int>((first_row(r) + 1) * square.stride()));
        }
        MPI_Gatherv(own.data() + square.stride(), counts[static_cast<size_t>(rank)], MPI_DOUBLE,
                    solution.data(), counts.data(), places.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank > 0) {
            return 0;
        }
        std::vector<double> expected(square.size()), before(square.size());
        for (int i = 0; i < sweeps; ++i) {
            std::swap(before, expected);
            sweep_by_cpu(square, source(), before.data(), expected.data());
        }
        double error = 0, highest = 0;
        for (size_t i = 0; i < square.size(); ++i) {
            error = std::max(error, std::fabs(solution[i] - expected[i]));
            highest = std::max(highest, solution[i]);
        }
        std::printf("%d x %d points, %d sweeps %s on %d ranks: %.3f ms a sweep, highest %.6f\n", n,
                    n, sweeps, how, ranks, 1e3 * seconds / sweeps, highest);
        std::printf("largest difference from the serial solution: %g\n", error);
        return error <= 1e-14 && highest > 0 ? 0 : 1;
    }

    int n, rank, ranks;
};

} // namespace poisson
