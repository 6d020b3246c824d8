// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The "signal" of initiated_bench by NVSHMEM, between two GPUs of a host:
//
//   nvshmem SIZE  a put with a signal, until a kernel of the other side has seen it: half of a
//   round
//
// contrib/bench-sync compiles and runs it where NVSHMEM is.
#include "driver.hpp"
#include "ticks.hpp"

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Signalling {
    char *out, *in;
    uint64_t* signal;
    unsigned long long* ticks;
    int peer;
    unsigned rounds, length;
};

__device__ void wait(const Signalling& with, unsigned round)
{
    if (threadIdx.x == 0) {
        nvshmem_signal_wait_until(with.signal, NVSHMEM_CMP_GE, round);
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
        nvshmemx_putmem_signal_block(with.in, with.out, with.length, with.signal, round + 1,
                                     NVSHMEM_SIGNAL_SET, with.peer);
        if (first) {
            wait(with, round + 1);
        }
        if (threadIdx.x == 0) {
            with.ticks[round] = bench::ticks() - begin;
        }
    }
    watch.note(with.ticks + with.rounds);
}

} // namespace

int main(int argc, char** argv)
{
    const auto rounds = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 2000);
    const size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1 << 20;
    int ids[2];
    if (pipe(ids) != 0) {
        bench::fail("pipe", "no descriptors");
    }
    const pid_t child = fork(); // before CUDA is used
    const int me = child == 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (me == 0) {
        nvshmemx_get_uniqueid(&id);
    }
    if ((me == 0 ? write(ids[1], &id, sizeof(id)) : read(ids[0], &id, sizeof(id))) != sizeof(id)) {
        bench::fail("the id", "it does not come");
    }
    cudaSetDevice(me);
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_set_attr_uniqueid_args(me, 2, &id, &attributes);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0) {
        bench::fail("nvshmemx_init_attr", "NVSHMEM does not start");
    }
    Signalling with{};
    with.out = static_cast<char*>(nvshmem_malloc(largest));
    with.in = static_cast<char*>(nvshmem_malloc(largest));
    with.signal = static_cast<uint64_t*>(nvshmem_malloc(sizeof(uint64_t)));
    with.peer = 1 - me;
    with.rounds = rounds;
    cudaMalloc(&with.ticks, (rounds + 2) * sizeof(*with.ticks));
    for (size_t size = 8; size <= largest; size *= 8) {
        with.length = static_cast<unsigned>(size);
        cudaMemset(with.signal, 0, sizeof(uint64_t));
        cudaDeviceSynchronize();
        nvshmem_barrier_all();
        exchange<<<1, 32>>>(with, me == 0);
        if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
            bench::fail("a kernel", cudaGetErrorString(error));
        }
        if (me == 0) {
            std::vector<unsigned long long> ticks(rounds + 2);
            cudaMemcpy(ticks.data(), with.ticks, ticks.size() * sizeof(ticks[0]),
                       cudaMemcpyDeviceToHost);
            bench::report_rounds("nvshmem " + std::to_string(size), ticks, 0.5);
        }
        nvshmem_barrier_all();
    }
    if (me == 0) {
        int status = 0;
        nvshmem_finalize();
        waitpid(child, &status, 0);
        return status != 0;
    }
    nvshmem_finalize();
}
