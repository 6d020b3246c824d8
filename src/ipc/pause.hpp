// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Spaces out retries of something that fails: it is tried again after 1, 3, 7, ... 1023 calls
// instead of at each message.
#pragma once

#include <algorithm>

namespace gdr::ipc {

// Used by one thread at a time.
class Pause {
  public:
    // Whether to skip this call.
    bool lasts()
    {
        const bool lasts = left_ > 0;
        left_ -= lasts;
        return lasts;
    }

    // begin(): it failed (again). end(): it works.
    void begin() { left_ = length_ = std::min(2 * length_ + 1, kLongest); }
    void end() { left_ = length_ = 0; }

  private:
    static constexpr unsigned kLongest = 1023;

    unsigned length_ = 0; // calls
    unsigned left_ = 0;   // calls
};

} // namespace gdr::ipc
