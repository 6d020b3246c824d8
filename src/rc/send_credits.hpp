// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Credits for work requests: free entries of an interface's completion queue. Its endpoints share
// them; window grants (window_credits.hpp) take some too.
#pragma once

#include <cstddef>

namespace gdr::rc {

class CompletionRoom;

inline constexpr unsigned kGrantRoom = 128; // of the completion queue, for window grants alone

// Worker thread only.
class SendCredits {
  public:
    // most: entries that endpoints' work requests may take in all.
    void open(int most, unsigned queue_length);

    // Divides the room for work requests, which grows with the number of endpoints that have queue
    // pairs. If it does not hold all their queues, their budgets, which count as posted, must not
    // make work requests scarce.
    void share_out(size_t endpoints, CompletionRoom& room);

    // Grants may take kGrantRoom more than are available.
    int available() const { return available_; }
    void take(int count) { available_ -= count; }
    void give_back(int count) { available_ += count; }

    // Up to so many available credits every work request is signalled.
    int scarce() const { return scarce_; }
    void set_scarce(int scarce) { scarce_ = scarce; }

    // The largest budget of an endpoint.
    int share() const { return share_; }

  private:
    int available_ = 0;
    int scarce_ = 0;
    int share_ = 0;
    int taken_ = 0; // entries of the completion queue
    int most_ = 0;  // largest possible taken_
    int queue_length_ = 0;
};

} // namespace gdr::rc
