// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Processes that did not answer a request for a descriptor, such as stopped ones. Messages wait for
// an answer, so an owner is asked again only after a growing pause, and then with little patience.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace gdr::ipc {

// Any thread.
class SilentOwners {
  public:
    using Clock = std::chrono::steady_clock;

    // How long to wait for an answer. Zero: do not ask the owner now.
    std::chrono::milliseconds patience(uint64_t owner, Clock::time_point now);

    void answered(uint64_t owner);

    // Threads that waited at the same time start only one pause.
    void did_not_answer(uint64_t owner, Clock::time_point now);

  private:
    struct Silence {
        std::chrono::seconds pause;
        Clock::time_point end;
    };

    std::mutex mutex_;
    std::unordered_map<uint64_t, Silence> silences_; // by Process::id
};

} // namespace gdr::ipc
