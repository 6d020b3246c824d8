// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Wakes somebody who looks after something, once enough of it has come together.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::mem {

// Any thread, any context: no lock, no allocation, and errno stays the caller's.
class Alarm {
  public:
    explicit constexpr Alarm(uint64_t enough) : enough_(enough) {}

    // The eventfd that is written to when enough was added since hush(). It must be nonblocking,
    // and stay open as long as the process lives; -1: none. Hushes.
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
