// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Closing memory takes as long as the longest running kernel, which may itself wait for one of our
// messages. So a thread closes memory; it exists only while there is something to close.
#pragma once

#include "ipc/region.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace gdr::ipc {

// Any thread.
class Closer {
  public:
    // Closes the region later.
    void add(Region::Owned region);

    // Returns when everything that was added is closed.
    void finish();

    // The same, but waits no longer than limit.
    void wait_for(std::chrono::milliseconds limit);

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable idle_;
    std::vector<Region::Owned> regions_;
    std::thread thread_;
    bool working_ = false;
};

} // namespace gdr::ipc
