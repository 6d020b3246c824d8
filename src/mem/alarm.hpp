// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writes to an eventfd once enough of something has accumulated.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::mem {

// Any thread, any context: takes no lock, allocates nothing, and keeps the caller's errno.
class Alarm {
  public:
    explicit constexpr Alarm(uint64_t enough) : enough_(enough) {}

    // Sets the eventfd that is written to once enough was added since hush(); -1: none. It must be
    // nonblocking and stay open until the process ends. Also hushes the alarm.
    void set(int eventfd);

    void add(uint64_t amount);
    bool has_rung() const { return added_.load(std::memory_order_relaxed) >= enough_; }
    void hush() { added_.store(0, std::memory_order_relaxed); }

  private:
    void ring() const;

    const uint64_t enough_;
    std::atomic<uint64_t> added_{0}; // since hush()
    std::atomic<int> eventfd_{-1};
};

} // namespace gdr::mem
