// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the next progress of an interface has to do for its endpoints. They are named by their ids,
// because they may be destroyed before.
#pragma once

#include "rc/connect/attention.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace gdr::rc {

// Worker thread only.
class EndpointTasks {
  public:
    explicit EndpointTasks(Attention& attention) : attention_(attention) {}

    // The endpoint's failure is to be reported to the user.
    void report(uint64_t id)
    {
        failed_.push_back(id);
        attention_.want();
    }

    // The endpoint's last work requests are still to be signalled.
    void signal(uint64_t id)
    {
        closing_.push_back(id);
        attention_.want();
    }

    std::vector<uint64_t> take_failed() { return std::exchange(failed_, {}); }
    std::vector<uint64_t> take_closing() { return std::exchange(closing_, {}); }

  private:
    Attention& attention_;
    std::vector<uint64_t> failed_;
    std::vector<uint64_t> closing_;
};

} // namespace gdr::rc
