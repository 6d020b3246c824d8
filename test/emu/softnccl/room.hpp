// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The shared memory in which the ranks of a communicator meet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace softnccl {

constexpr size_t kSlot = 1 << 20;

struct Aborted : std::runtime_error {
    Aborted() : std::runtime_error("aborted") {}
};

// One thread at a time, but for abort().
class Room {
  public:
    // All ranks give the same name, which is of no more use when they have met for the first time.
    Room(const std::string& name, int ranks, int rank);
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    ~Room();

    // Returns when all ranks have come here as often as this one. Throws Aborted.
    void meet();
    void abort() { aborted_ = true; }
    bool aborted() const { return aborted_; }

    // What each rank shows to the others.
    struct Slot {
        char gpu[16];
        uint64_t bytes;
        char data[kSlot];
    };
    Slot& slot(int rank) const;
    Slot& own() const { return slot(rank_); }

    int ranks() const { return ranks_; }
    int rank() const { return rank_; }

  private:
    struct Shared {
        std::atomic<uint64_t> arrivals;
    };

    size_t bytes() const;

    const std::string name_;
    const int ranks_, rank_;
    Shared* shared_;
    uint64_t meetings_ = 0;
    std::atomic<bool> aborted_ = false;
};

} // namespace softnccl
