// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration caches of a process, one for each HCA that is open.
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
    void remove(Cache& cache); // waits for those who visit it

    // Calls visit(const std::vector<Cache*>&) while none comes or goes.
    auto visit(auto visitor) const
    {
        std::shared_lock guard(lock_);
        return visitor(all_);
    }

    // Calls call(Cache*) for each, and logs what it throws: for who has nobody to tell.
    void for_each(const char* what, auto call) const
    {
        (void)abi::guarded(what, [&] {
            visit([&](const auto& caches) { std::ranges::for_each(caches, call); });
            return UCS_OK;
        });
    }

    // Each HCA finds out, once for each GPU, whether it takes memory as this.
    void learn(const cuda::Pointer& memory);

    // Not all device memory that is freed is told of: it is time to look when as much again may
    // have been. Rings once so many bytes of it were registered.
    Alarm& alarm() { return alarm_; }

  private:
    mutable std::shared_mutex lock_;
    std::vector<Cache*> all_;
    Alarm alarm_{uint64_t{256} << 20};
    std::atomic<uint64_t> learnt_{0}; // GPUs, a bit each, since the last HCA was opened
};

} // namespace gdr::mem
