// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How kernels measure: in ticks, whose length comes out in the end. For GPUs and for the host.
#pragma once

#include "sync/ucx-gdr/ugdr_initiate.cuh"

#if !defined(__CUDACC__) && !defined(__CUDA__)
#include <time.h>
#endif

namespace bench {

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
    // elapsed: ticks, nanoseconds.
    UGDR_DEVICE void note(unsigned long long* elapsed) const
    {
        if (thread() == 0) {
            elapsed[0] = ticks() - ticks_;
            elapsed[1] = nanoseconds() - nanoseconds_;
        }
    }

  private:
    unsigned long long ticks_, nanoseconds_;
};

} // namespace bench
