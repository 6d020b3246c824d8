// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The allocations of other processes that this one has opened. They stay open while nobody uses
// them, as long as their owner is connected and the limit allows: opening takes longer than most
// copies. What is open keeps its owner's memory from being returned when that is freed.
#pragma once

#include "ipc/closer.hpp"
#include "ipc/region.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

namespace gdr::ipc {

// Any thread. One for the process: keys are unpacked by no memory domain in particular. UCP unpacks
// and releases one for each rendezvous: a key that the calling thread had before takes no lock, no
// allocation, no system call and no call of the driver.
class RemoteMemory {
  public:
    static RemoteMemory& instance();

    // Memory domains that are open. The last to leave closes everything that is not used.
    void enter(size_t limit);
    void leave();

    // Endpoints to a process. With the last of them what nobody uses of its memory is closed, and
    // what is used when it is released.
    void connect(uint64_t owner);
    void disconnect(uint64_t owner);

    // The region of a key, opened for a GPU of this process, to be released; nullptr where it does
    // not open. A region of other memory at the same addresses is stale and will be closed.
    Region* acquire(const cuda::Driver& driver, const RemoteKey& key);
    void release(Region* region);

    struct Counts {
        size_t regions = 0;
        size_t idle_bytes = 0;
    };
    Counts counts();

  private:
    struct Owner {
        std::map<uint64_t, Region*> regions; // by base
        unsigned endpoints = 0;
    };

    bool use(Region& region);
    bool use_again(Region& region, const RemoteKey& key);
    void end_use(Region& region);
    Region* find_or_add(const cuda::Driver& driver, const RemoteKey& key);
    void take_out_stale(Owner& owner, const RemoteKey& key);
    bool close_if_unused(Region& region);
    void close_unused(Owner& owner);
    void close_left_over(uint64_t owner);
    void trim();

    std::mutex mutex_;
    std::unordered_map<uint64_t, Owner> owners_; // by Process::id
    size_t regions_ = 0;                         // open, the stale ones too
    unsigned domains_ = 0;
    std::atomic<int64_t> idle_bytes_{0}; // while a region changes hands less than none
    std::atomic<uint64_t> releases_{0};
    std::atomic<size_t> limit_{SIZE_MAX};
    Closer closer_;
};

} // namespace gdr::ipc
