// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Wakes a thread that sleeps because there is nothing to do. Ringing costs a system call only if
// the thread sleeps.
#pragma once

#include <atomic>

namespace gdr::sync {

class Doorbell {
  public:
    Doorbell* next = nullptr; // in the pool

    // Any thread calls this, after it has published the work.
    void ring()
    {
        if (asleep_.exchange(0) != 0) {
            asleep_.notify_one();
        }
    }

    // The one thread sleeps here until somebody rings. It announces its sleep before it asks
    // whether there is something to do, so that no ring is lost.
    template <typename Condition>
    void sleep_unless(Condition&& something_to_do)
    {
        asleep_.exchange(1);
        if (!something_to_do()) {
            asleep_.wait(1);
        }
        asleep_.exchange(0);
    }

  private:
    std::atomic<int> asleep_{0};
};

} // namespace gdr::sync
