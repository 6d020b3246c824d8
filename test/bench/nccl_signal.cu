// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The "signal" of initiated_bench by NCCL, between two GPUs of a host:
//
//   nccl SIZE         ncclSend and ncclRecv in a stream: half of a round, on average over all
//   nccl device SIZE  stores to a window of the peer, by NCCL's device functions, and a signal
//
// contrib/bench-sync compiles and runs it where NCCL 2.28 or later is.
#include "driver.hpp"
#include "ticks.hpp"

#include <barrier>
#include <thread>

#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

namespace {

#define NCCL(call)                                                                                 \
    do {                                                                                           \
        if (const ncclResult_t result = call; result != ncclSuccess)                               \
            bench::fail(#call, ncclGetErrorString(result));                                        \
    } while (0)
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        if (const cudaError_t result = call; result != cudaSuccess)                                \
            bench::fail(#call, cudaGetErrorString(result));                                        \
    } while (0)

// A window: what comes in, what goes out, and behind both the signal.
struct Signalling {
    ncclWindow_t window;
    char* own;
    unsigned long long* ticks;
    size_t largest;
    int peer;
    unsigned rounds, length;

    __host__ __device__ size_t signal() const { return 2 * largest; }
};

// Eight bytes at a time, by all threads; then the signal.
__device__ void put(const Signalling& with, unsigned round)
{
    const auto* out = reinterpret_cast<const uint64_t*>(with.own + with.largest);
    auto* in = static_cast<uint64_t*>(ncclGetLsaPointer(with.window, 0, with.peer));
    for (unsigned i = threadIdx.x; i < with.length / 8; i += blockDim.x) {
        in[i] = out[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        *static_cast<volatile unsigned long long*>(
            ncclGetLsaPointer(with.window, with.signal(), with.peer)) = round;
    }
}

__device__ void wait(const Signalling& with, unsigned round)
{
    if (threadIdx.x == 0) {
        const auto* signal =
            reinterpret_cast<const volatile unsigned long long*>(with.own + with.signal());
        while (*signal < round) {
        }
        __threadfence_system();
    }
    __syncthreads();
}

__global__ void exchange(Signalling with, bool first)
{
    const bench::Watch watch;
    for (unsigned round = 0; round < with.rounds; ++round) {
        const unsigned long long begin = bench::ticks();
        if (!first) {
            wait(with, round + 1);
        }
        put(with, round + 1);
        if (first) {
            wait(with, round + 1);
        }
        if (threadIdx.x == 0) {
            with.ticks[round] = bench::ticks() - begin;
        }
    }
    watch.note(with.ticks + with.rounds);
}

class Side {
  public:
    Side(ncclComm_t comm, int index, unsigned rounds, size_t largest) : comm_(comm), index_(index)
    {
        CUDA(cudaSetDevice(index));
        CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        with_.largest = largest;
        with_.peer = 1 - index;
        with_.rounds = rounds;
        void* memory;
        NCCL(ncclMemAlloc(&memory, 2 * largest + 4096));
        with_.own = static_cast<char*>(memory);
        CUDA(cudaMalloc(&with_.ticks, (rounds + 2) * sizeof(*with_.ticks)));
    }
    void register_window() // both sides together
    {
        NCCL(ncclCommWindowRegister(comm_, with_.own, 2 * with_.largest + 4096, &with_.window,
                                    NCCL_WIN_COLL_SYMMETRIC));
    }

    void in_stream(size_t size)
    {
        std::vector<double> samples;
        constexpr unsigned kRounds = 100;
        for (unsigned i = 0; i <= with_.rounds / kRounds; ++i) {
            both_.arrive_and_wait();
            const auto begin = bench::Clock::now();
            for (unsigned round = 0; round < kRounds; ++round) {
                for (const bool send : {index_ == 0, index_ != 0}) {
                    if (send) {
                        NCCL(ncclSend(with_.own + with_.largest, size, ncclChar, with_.peer, comm_,
                                      stream_));
                    } else {
                        NCCL(ncclRecv(with_.own, size, ncclChar, with_.peer, comm_, stream_));
                    }
                }
            }
            CUDA(cudaStreamSynchronize(stream_));
            if (i > 0) {
                samples.push_back(bench::microseconds(bench::Clock::now() - begin) / kRounds / 2);
            }
        }
        if (index_ == 0) {
            bench::report("nccl " + std::to_string(size), samples);
        }
    }

    void by_kernels(size_t size)
    {
        with_.length = static_cast<unsigned>(size);
        CUDA(cudaMemset(with_.own + with_.signal(), 0, sizeof(uint64_t)));
        CUDA(cudaDeviceSynchronize());
        both_.arrive_and_wait();
        exchange<<<1, 32, 0, stream_>>>(with_, index_ == 0);
        CUDA(cudaStreamSynchronize(stream_));
        both_.arrive_and_wait();
        if (index_ == 0) {
            std::vector<unsigned long long> ticks(with_.rounds + 2);
            CUDA(cudaMemcpy(ticks.data(), with_.ticks, ticks.size() * sizeof(ticks[0]),
                            cudaMemcpyDeviceToHost));
            bench::report_rounds("nccl device " + std::to_string(size), ticks, 0.5);
        }
    }

  private:
    inline static std::barrier<> both_{2};
    ncclComm_t comm_;
    const int index_;
    cudaStream_t stream_ = nullptr;
    Signalling with_{};
};

} // namespace

int main(int argc, char** argv)
{
    const auto rounds = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 2000);
    const size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1 << 20;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    ncclComm_t comms[2];
    const int gpus[] = {0, 1};
    NCCL(ncclCommInitAll(comms, 2, gpus));
    const auto run = [&](int index) {
        Side side(comms[index], index, rounds, largest);
        side.register_window();
        for (size_t size = 8; size <= largest; size *= 8) {
            side.in_stream(size);
            side.by_kernels(size);
        }
    };
    std::thread other([&] { run(1); });
    run(0);
    other.join();
    std::fflush(stdout);
    std::_Exit(0); // communicators end with the process
}
