// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What does not work now is tried again, but not for each message: after 1, 3, 7, ... 1023 of them.
#pragma once

#include <algorithm>

namespace gdr::ipc {

// One thread at a time.
class Pause {
  public:
    // Whether this call is one of those to be left out.
    bool lasts()
    {
        const bool lasts = left_ > 0;
        left_ -= lasts;
        return lasts;
    }

    // It did not work, again; it works.
    void begin() { left_ = length_ = std::min(2 * length_ + 1, kLongest); }
    void end() { left_ = length_ = 0; }

  private:
    static constexpr unsigned kLongest = 1023;

    unsigned length_ = 0; // calls
    unsigned left_ = 0;   // calls
};

} // namespace gdr::ipc
