// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation -(u_xx + u_yy) = 1 on the unit square, u = 0 on its border, by Jacobi's
// method: N x N inner points in strips of rows, one a rank. All sweeps are one launch of one
// kernel, which puts its first and last row to the neighbours and waits for theirs; and once more
// as a program does that has no such kernels: a launch and two MPI_Sendrecv for each sweep. Both
// results are compared with what one CPU computes.
//
//   nvcc -O2 -std=c++17 -ccbin mpicxx -cudart shared halo.cu -o halo -lucx-gdr -lucp -lucs
//   mpirun -n 2 ucx-gdr run ./halo [N] [SWEEPS]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "peers.cuh"

namespace {

constexpr int kThreads = 1024; // of the block that has the whole strip

// A rank's rows, with one more at each side: a neighbour's, or the square's border. Columns
// likewise.
struct Strip {
    int columns, rows; // inner ones
    double source;

    __host__ __device__ size_t stride() const { return columns + 2; }
    __host__ __device__ size_t size() const { return stride() * (rows + 2); }
    __host__ __device__ size_t row(int number) const { return stride() * number; }
};

// The strip after an even number of sweeps, and after an odd one.
struct Buffers {
    double *even, *odd;

    __host__ __device__ double* after(int sweep) const { return sweep % 2 == 0 ? even : odd; }
};

// The neighbour's buffers and signals, by their numbers. The signals count the sweeps of the
// neighbours: the first word is that of the one above, the second of the one below.
struct Neighbour {
    bool is_there;
    unsigned even, odd, signals;
    size_t row; // where our row goes
};
struct Names {
    unsigned even, odd;
    Neighbour above, below;
};

// The order of the additions is the same everywhere, so results are equal to the last bit.
__host__ __device__ double mean(const Strip& strip, const double* at)
{
    const double vertical = at[-static_cast<long>(strip.stride())] + at[strip.stride()];
    const double horizontal = at[-1] + at[1];
    return (vertical + horizontal + strip.source) * 0.25;
}

// All threads of a block compute a part of the inner points.
__device__ void sweep(const Strip& strip, const double* from, double* to)
{
    const int all = strip.rows * strip.columns;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
        const size_t at = strip.row(i / strip.columns + 1) + i % strip.columns + 1;
        to[at] = mean(strip, from + at);
    }
}

// ---- by one kernel

// A row of ours after this sweep goes to the neighbour's buffer, and then the sweep's number to its
// signals. It has used what was there before: it has sent us a row that it made from that.
__device__ void put_row(const ugdr_dev_t& gdr, const Strip& strip, const Names& names,
                        const Neighbour& to, int row, int sweep, unsigned word)
{
    if (to.is_there) {
        ugdr_dev_put_signal<UGDR_LEVEL_BLOCK>(
            gdr, word, sweep % 2 == 0 ? names.even : names.odd, strip.row(row) * sizeof(double),
            sweep % 2 == 0 ? to.even : to.odd, to.row * sizeof(double),
            strip.stride() * sizeof(double), to.signals, word * sizeof(unsigned long long),
            static_cast<unsigned long long>(sweep));
    }
}

__device__ bool wait_for_row(const ugdr_dev_t& gdr, const Neighbour& from,
                             const unsigned long long* signal, int sweep)
{
    return !from.is_there || ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(
                                 gdr, signal, static_cast<unsigned long long>(sweep)) == 0;
}

__global__ void __launch_bounds__(kThreads)
    solve(ugdr_dev_t gdr, Strip strip, Buffers buffers, Names names,
          const unsigned long long* signals, int sweeps, int* failed)
{
    for (int number = 1; number <= sweeps; ++number) {
        if (!wait_for_row(gdr, names.above, signals, number - 1) ||
            !wait_for_row(gdr, names.below, signals + 1, number - 1)) {
            *failed = 1;
            return;
        }
        sweep(strip, buffers.after(number - 1), buffers.after(number));
        put_row(gdr, strip, names, names.above, 1, number, 1);          // it is below that one
        put_row(gdr, strip, names, names.below, strip.rows, number, 0); // and above this
    }
    if (ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(gdr, 0) != 0 ||
        ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(gdr, 1) != 0) {
        *failed = 1;
    }
}

// ---- by MPI

__global__ void __launch_bounds__(kThreads) sweep_once(Strip strip, const double* from, double* to)
{
    sweep(strip, from, to);
}

// ---- both

class Problem {
  public:
    Problem(int size, int sweeps) : size_(size), sweeps_(sweeps)
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
        strip_ = {size, rows_of(rank_), 1.0 / (size + 1) / (size + 1)};
        buffers_ = {on_gpu<double>(strip_.size()), on_gpu<double>(strip_.size())};
    }

    void by_kernel(cudaStream_t stream)
    {
        std::vector<int> neighbours;
        if (above() >= 0) {
            neighbours.push_back(above());
        }
        if (below() < ranks_) {
            neighbours.push_back(below());
        }
        Peers peers(neighbours, 2);
        auto* signals = on_gpu<unsigned long long>(2);
        int* failed = on_gpu<int>(1);
        ugdr_mem_h even = peers.map(buffers_.even, strip_.size()),
                   odd = peers.map(buffers_.odd, strip_.size()), words = peers.map(signals, 2);
        Names names = {};
        names.even = ugdr_mem_id(even);
        names.odd = ugdr_mem_id(odd);
        for (int rank : neighbours) {
            Neighbour& one = rank < rank_ ? names.above : names.below;
            const int row = rank < rank_ ? rows_of(rank) + 1 : 0;
            one = {true, peers.import(rank, even), peers.import(rank, odd),
                   peers.import(rank, words), strip_.row(row)};
        }
        const ugdr_dev_t gdr = peers.open_device();
        measure("kernel", [&] {
            solve<<<1, kThreads, 0, stream>>>(gdr, strip_, buffers_, names, signals, sweeps_,
                                              failed);
            CUDA(cudaGetLastError());
            CUDA(cudaStreamSynchronize(stream));
        });
        int result;
        CUDA(cudaMemcpy(&result, failed, sizeof(result), cudaMemcpyDeviceToHost));
        if (result != 0) {
            fail("the kernel", "a row will not come: see the line of ugdr");
        }
    }

    void by_mpi(cudaStream_t stream)
    {
        CUDA(cudaMemset(buffers_.even, 0, strip_.size() * sizeof(double)));
        CUDA(cudaMemset(buffers_.odd, 0, strip_.size() * sizeof(double)));
        CUDA(cudaDeviceSynchronize()); // the stream does not wait for it
        measure("MPI", [&] {
            for (int number = 1; number <= sweeps_; ++number) {
                double* const from = buffers_.after(number - 1);
                exchange_rows(from);
                sweep_once<<<1, kThreads, 0, stream>>>(strip_, from, buffers_.after(number));
                CUDA(cudaGetLastError());
                CUDA(cudaStreamSynchronize(stream));
            }
        });
    }

  private:
    int above() const { return rank_ - 1; }
    int below() const { return rank_ + 1; }
    int rows_of(int rank) const { return size_ / ranks_ + (rank < size_ % ranks_ ? 1 : 0); }

    void exchange_rows(double* data) const
    {
        const int count = static_cast<int>(strip_.stride()),
                  up = above() >= 0 ? above() : MPI_PROC_NULL,
                  down = below() < ranks_ ? below() : MPI_PROC_NULL;
        MPI_Sendrecv(data + strip_.row(1), count, MPI_DOUBLE, up, 0,
                     data + strip_.row(strip_.rows + 1), count, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(data + strip_.row(strip_.rows), count, MPI_DOUBLE, down, 1, data, count,
                     MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    template <class Way>
    void measure(const char* name, const Way& way) const
    {
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        way();
        MPI_Barrier(MPI_COMM_WORLD);
        const std::chrono::duration<double, std::micro> time =
            std::chrono::steady_clock::now() - start;
        const double difference = largest_difference();
        if (rank_ == 0) {
            std::printf("%-6s %10.2f us a sweep, largest difference from the serial solution: %g\n",
                        name, time.count() / sweeps_, difference);
        }
        if (difference != 0) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }

    // Of all ranks: each computes the whole square.
    double largest_difference() const
    {
        const Strip whole = {size_, size_, strip_.source};
        std::vector<double> from(whole.size()), to(whole.size()), ours(strip_.size());
        for (int number = 1; number <= sweeps_; ++number) {
            for (int row = 1; row <= size_; ++row) {
                for (int column = 1; column <= size_; ++column) {
                    const size_t at = whole.row(row) + column;
                    to[at] = mean(whole, &from[at]);
                }
            }
            from.swap(to);
        }
        CUDA(cudaMemcpy(ours.data(), buffers_.after(sweeps_), ours.size() * sizeof(double),
                        cudaMemcpyDeviceToHost));
        int first = 0;
        for (int rank = 0; rank < rank_; ++rank) {
            first += rows_of(rank);
        }
        double largest = 0, all = 0;
        for (size_t i = strip_.row(1); i < strip_.row(strip_.rows + 1); ++i) {
            largest = std::max(largest, std::fabs(ours[i] - from[whole.row(first) + i]));
        }
        MPI_Allreduce(&largest, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return all;
    }

    const int size_, sweeps_;
    int rank_ = 0, ranks_ = 1;
    Strip strip_ = {};
    Buffers buffers_ = {};
};

} // namespace

int main(int argc, char** argv)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); // kernels that wait keep others from being loaded
    MPI_Init(&argc, &argv);
    int rank, ranks, gpus;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int size = argc > 1 ? std::atoi(argv[1]) : 256,
              sweeps = argc > 2 ? std::atoi(argv[2]) : 1000;
    if (size < ranks || size > 4096 || sweeps < 1) {
        fail("usage: halo [N] [SWEEPS]", "at least a row for each rank, and at most 4096");
    }
    CUDA(cudaGetDeviceCount(&gpus));
    CUDA(cudaSetDevice(rank % gpus));
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Problem problem(size, sweeps);
    problem.by_kernel(stream);
    problem.by_mpi(stream);
    MPI_Finalize();
    return 0;
}
