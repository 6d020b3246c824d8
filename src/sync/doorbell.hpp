// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Waking a thread that sleeps because there is nothing to do. Ringing costs no system call unless
// it does sleep.
#pragma once

#include <atomic>

namespace gdr::sync {

class Doorbell {
  public:
    Doorbell* next = nullptr; // in the pool

    // Any thread, after it has brought what there is to do.
    void ring()
    {
        if (asleep_.exchange(0) != 0)
            asleep_.notify_one();
    }

    // The one thread: until somebody rings. Returns at once if there is something to do: asked
    // after those who ring from now on know that somebody sleeps.
    template <typename Condition>
    void sleep_unless(Condition&& something_to_do)
    {
        asleep_.exchange(1);
        if (!something_to_do())
            asleep_.wait(1);
        asleep_.exchange(0);
    }

  private:
    std::atomic<int> asleep_{0};
};

} // namespace gdr::sync
