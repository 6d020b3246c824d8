// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels that initiate operations and note how long they take: for GPUs (initiators.cu), and for
// the host, where a thread does what a block's threads do.
#pragma once

#include "sync/ucx-gdr/ugdr_initiate.cuh"

#if !defined(__CUDACC__) && !defined(__CUDA__)
#include <time.h>
#endif

namespace bench {

// What a kernel gets, by value.
struct Initiating {
    ugdr_dev_t device;
    unsigned long long* signal;  // of this side: which round has come
    unsigned long long* ticks;   // of each round
    unsigned long long* elapsed; // by all rounds: ticks, nanoseconds
    unsigned mem, rmem, rsignal; // of what goes out; of the peer's memory
    unsigned channels, rounds, length;
};

#if defined(__CUDACC__) || defined(__CUDA__)
UGDR_DEVICE unsigned thread()
{
    return ugdr_detail::thread_in_block();
}
UGDR_DEVICE unsigned threads()
{
    return ugdr_detail::ntid(0);
}
UGDR_DEVICE unsigned long long ticks()
{
    unsigned long long value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
    return value;
}
UGDR_DEVICE unsigned long long nanoseconds()
{
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}
#else
inline unsigned thread()
{
    return 0;
}
inline unsigned threads()
{
    return 1;
}
inline unsigned long long nanoseconds()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000 +
           static_cast<unsigned long long>(now.tv_nsec);
}
inline unsigned long long ticks()
{
    return nanoseconds();
}
#endif

// Begins when it is made. The threads of the block are together then, and when it is noted.
class Watch {
  public:
    UGDR_DEVICE Watch() : ticks_(ticks()), nanoseconds_(nanoseconds()) {}
    UGDR_DEVICE void note(const Initiating& with) const
    {
        if (thread() == 0) {
            with.elapsed[0] = ticks() - ticks_;
            with.elapsed[1] = nanoseconds() - nanoseconds_;
        }
    }

  private:
    unsigned long long ticks_, nanoseconds_;
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
    watch.note(with);
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
    watch.note(with);
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
    watch.note(with);
}

} // namespace bench
