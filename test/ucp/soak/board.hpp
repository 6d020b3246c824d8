// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the processes of a soak share: what is to be done now, where actors are reached, what was
// done, and what each process held when it was quiet.
#pragma once

#include <atomic>
#include <cstdint>

#include "growth.hpp"

namespace ucptest {

enum class Kind { kTag, kAm, kStream, kPut, kGet, kAtomic }; // atomics last: not every UCX has them
inline constexpr unsigned kKinds = 6;
const char* name(Kind kind);

inline constexpr unsigned kMostProcesses = 64;
inline constexpr unsigned kMostThreads = 16;
inline constexpr unsigned kMeasurements = 3; // after the warm-up, in the middle, at the end

struct Board {
    enum class Phase { kRun, kQuiet, kStop };

    // In anonymous memory that children share.
    static Board& create();

    // Says so, once, and ends the soak.
    void fail(const char* who, const char* why);

    std::atomic<Phase> phase{Phase::kRun};
    bool disturbed = false; // peers are killed, or the wire is not sound: connections may fail
    std::atomic<unsigned> failures{0};
    std::atomic<unsigned> measuring{0}; // the measurement that is asked for, counted from 1

    struct Actor {
        std::atomic<uint16_t> port{0};  // of its listener, in network byte order
        std::atomic<bool> empty{false}; // it is quiet and has nothing open
    };
    struct Process {
        Actor actors[kMostThreads];
        Holdings holdings[kMeasurements];
        std::atomic<unsigned> measured{0};
    };
    Process processes[kMostProcesses];

    std::atomic<uint64_t> transfers[kKinds]{};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> connections{0}; // made
    std::atomic<uint64_t> farewells{0};   // closed as agreed
    std::atomic<uint64_t> losses{0};      // connections that failed
};

} // namespace ucptest
