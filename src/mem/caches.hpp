// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration caches of a process, one for each HCA that is open.
#pragma once

#include "mem/alarm.hpp"

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

    // Nobody tells that device memory was freed: it is time to look when as much again may have
    // been. Rings once so many bytes of it were registered.
    Alarm& alarm() { return alarm_; }

  private:
    mutable std::shared_mutex lock_;
    std::vector<Cache*> all_;
    Alarm alarm_{uint64_t{256} << 20};
};

} // namespace gdr::mem
