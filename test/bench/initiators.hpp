// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels that initiate operations and note how long they take: for GPUs (initiators.cu), and for
// the host, where a thread does what a block's threads do.
#pragma once

#include "sync/ucx-gdr/ugdr_initiate.cuh"
#include "sync/ucx-gdr/ugdr_transfer.cuh"

#include "ticks.hpp"

namespace bench {

// What a kernel gets, by value.
struct Initiating {
    ugdr_dev_t device;
    unsigned long long* signal;  // of this side: which round has come
    unsigned long long* ticks;   // of each round
    unsigned long long* elapsed; // by all rounds (ticks.hpp)
    unsigned mem, rmem, rsignal; // of what goes out; of the peer's memory
    unsigned channels, rounds, length;
};

// Each thread puts by itself; a warp has a channel.
UGDR_DEVICE void put_many(const Initiating& with)
{
    const Watch watch;
    for (unsigned round = thread(); round < with.rounds; round += threads()) {
        ugdr_dev_put(with.device, thread() / 32 % with.channels, with.mem, 0, with.rmem, 0,
                     with.length);
    }
    for (unsigned channel = 0; channel < with.channels; ++channel) {
        ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, channel);
    }
    watch.note(with.elapsed);
}

UGDR_DEVICE void put_and_quiet(const Initiating& with)
{
    const Watch watch;
    for (unsigned round = 0; round < with.rounds; ++round) {
        const unsigned long long begin = ticks();
        ugdr_dev_put<UGDR_LEVEL_BLOCK>(with.device, 0, with.mem, 0, with.rmem, 0, with.length);
        ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, 0);
        if (thread() == 0) {
            with.ticks[round] = ticks() - begin;
        }
    }
    watch.note(with.elapsed);
}

// Data and a signal go there, and come back from a kernel that waits for them. After a signal that
// does not come, rounds end at once.
UGDR_DEVICE void exchange(const Initiating& with, bool first)
{
    const Watch watch;
    for (unsigned round = 0; round < with.rounds; ++round) {
        const unsigned long long begin = ticks();
        if (!first) {
            ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(with.device, with.signal, round + 1);
        }
        ugdr_dev_put_signal<UGDR_LEVEL_BLOCK>(with.device, 0, with.mem, 0, with.rmem, 0,
                                              with.length, with.rsignal, 0, round + 1);
        if (first) {
            ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(with.device, with.signal, round + 1);
        }
        if (thread() == 0) {
            with.ticks[round] = ticks() - begin;
        }
    }
    watch.note(with.elapsed);
}

// Of the kernel that computes what a prepared transfer sends.
struct Computing {
    ugdr_dev_transfer_t transfer;
    float* data;
    unsigned partitions, count; // of numbers in a partition
    unsigned work;              // on each number
    unsigned sends;             // 0: nothing is made ready
};

UGDR_DEVICE void compute(const Computing& with)
{
    for (unsigned partition = 0; partition < with.partitions; ++partition) {
        for (unsigned i = thread(); with.work > 0 && i < with.count; i += threads()) {
            float& number = with.data[partition * with.count + i];
            float value = number;
            for (unsigned times = 0; times < with.work; ++times) {
                value = value * 0.75F + 1.0F;
            }
            number = value;
        }
        if (with.sends != 0) {
#if defined(__CUDACC__) || defined(__CUDA__)
            ugdr_dev_ready_block(with.transfer, partition);
#else
            ugdr_dev_ready(with.transfer, partition);
#endif
        }
    }
}

} // namespace bench
