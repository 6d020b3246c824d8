// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels of the tests: one fills the partitions of a buffer, which are sent as they are ready, the
// other waits for each and looks at it. For nvcc and clang (partitions.cu), and for the host, where
// a thread does what a block's threads do.
#pragma once

#include "sync/ucx-gdr/ugdr_device.cuh"

namespace synctest {

struct Block {
    unsigned number;
    unsigned thread, threads; // of the block

#if defined(__CUDACC__) || defined(__CUDA__)
    UGDR_DEVICE void sync() const
    {
        asm volatile("barrier.sync 0;" ::: "memory");
    }
    UGDR_DEVICE void arrive(const ugdr_dev_condition_t& condition, unsigned index) const
    {
        ugdr_dev_arrive_block(condition, index);
    }
#else
    void sync() const {}
    void arrive(const ugdr_dev_condition_t& condition, unsigned index) const
    {
        ugdr_dev_arrive(condition, index);
    }
#endif
};

UGDR_DEVICE int number_at(unsigned index, int round)
{
    return round * 100003 + static_cast<int>(index);
}

// `blocks` of them make a partition of `length` numbers, in an order that changes with the round.
UGDR_DEVICE void produce(const Block& block, const ugdr_dev_condition_t& sends, int* data,
                         unsigned length, unsigned blocks, int round)
{
    const unsigned partition =
        (block.number / blocks * 7 + static_cast<unsigned>(round)) % sends.count;
    const unsigned piece = length / blocks, within = block.number % blocks;
    if (block.thread == 0) {
        ugdr_dev_wait(sends, partition); // it is being sent no more
    }
    block.sync();
    for (unsigned i = block.thread; i < piece; i += block.threads) {
        const unsigned at = partition * length + within * piece + i;
        data[at] = number_at(at, round);
    }
    block.arrive(sends, partition);
}

// A block for each partition. wrong: an element for each: how many numbers, -1 for a receive that
// failed.
UGDR_DEVICE void consume(const Block& block, const ugdr_dev_condition_t& receives, const int* data,
                         unsigned length, int round, int* wrong)
{
    if (block.thread == 0) {
        ugdr_dev_trigger(receives, block.number);
        if (ugdr_dev_wait(receives, block.number) != 0) {
            wrong[block.number] = -1;
        }
    }
    block.sync();
    int different = 0;
    for (unsigned i = block.thread; i < length; i += block.threads) {
        const unsigned at = block.number * length + i;
        different += *static_cast<const volatile int*>(data + at) != number_at(at, round) ? 1 : 0;
    }
    if (different != 0) {
        wrong[block.number] = different;
    }
}

} // namespace synctest
