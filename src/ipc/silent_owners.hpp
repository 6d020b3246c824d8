// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Processes that did not answer when they were asked for a descriptor, as one that is stopped.
// Messages wait for an answer: an owner is asked again after a pause, which grows, and then hardly
// waited for.
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

    // How long an answer may take. None: the owner is not to be asked now.
    std::chrono::milliseconds patience(uint64_t owner, Clock::time_point now);

    void answered(uint64_t owner);

    // Threads that have waited at the same time make one pause.
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
