// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Closing takes as long as the longest kernel that is running, which may itself wait for a message
// of ours: it has a thread of its own, which is there only while there is something to close.
#pragma once

#include "ipc/region.hpp"

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gdr::ipc {

// Any thread.
class Closer {
  public:
    // Destroys the region, later.
    void add(std::unique_ptr<Region> region);

    // Returns when all that was added has been destroyed.
    void finish();

  private:
    void work();

    std::mutex mutex_;
    std::vector<std::unique_ptr<Region>> regions_;
    std::thread thread_;
    bool working_ = false;
};

} // namespace gdr::ipc
