// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Closing takes as long as the longest kernel that is running, which may itself wait for a message
// of ours: it has a thread of its own, which is there only while there is something to close.
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
    // Closes the region, later.
    void add(Region::Owned region);

    // Returns when all that was added has been closed.
    void finish();

    // The same, if that does not take longer than this.
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
