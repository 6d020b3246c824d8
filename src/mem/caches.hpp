// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration caches of a process, one for each open HCA.
#pragma once

#include "abi/border.hpp"
#include "cuda/pointer.hpp"
#include "mem/alarm.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace gdr::mem {

class Cache;

// Any thread.
class Caches {
  public:
    static Caches& instance();

    void add(Cache& cache);
    void remove(Cache& cache); // waits for visitors

    // Calls visitor(const std::vector<Cache*>&) while no cache is added or removed.
    auto visit(auto visitor) const
    {
        std::shared_lock guard(lock_);
        return visitor(all_);
    }

    // Calls call(Cache*) for each cache and logs exceptions, for callers that cannot report them.
    void for_each(const char* what, auto call) const
    {
        (void)abi::guarded(what, [&] {
            visit([&](const auto& caches) { std::ranges::for_each(caches, call); });
            return UCS_OK;
        });
    }

    // Every HCA finds out, once per GPU, whether it takes memory of this GPU.
    void learn(const cuda::Pointer& memory);

    // Not every free of device memory is reported, so somebody must look for freed memory. The
    // alarm rings once so many bytes were registered, since as much may have been freed.
    Alarm& alarm() { return alarm_; }

  private:
    mutable std::shared_mutex lock_;
    std::vector<Cache*> all_;
    Alarm alarm_{uint64_t{256} << 20};
    std::atomic<uint64_t> learnt_{0}; // one bit per GPU, since the last HCA was opened
};

} // namespace gdr::mem
