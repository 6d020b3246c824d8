// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The allocations of other processes that this process has opened. They stay open while nobody uses
// them, as long as their owner is connected and the limit allows, because opening takes longer than
// most copies. Memory that is open here does not return to the system when its owner frees it.
#pragma once

#include "ipc/closer.hpp"
#include "ipc/region.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

namespace gdr::ipc {

// Any thread. One instance per process, because no particular memory domain unpacks a key. UCP
// unpacks and releases a key for each rendezvous: a key that the calling thread had before takes no
// lock and makes no allocation, system call or driver call.
class RemoteMemory {
  public:
    static RemoteMemory& instance();

    // Counts open memory domains. The last to leave closes everything that is not used.
    void enter(size_t limit);
    void leave();

    // Counts endpoints to a process. When the last one goes, its unused memory is closed, and used
    // memory is closed at its release.
    void connect(uint64_t owner);
    void disconnect(uint64_t owner);

    // The region of a key, opened for a GPU of this process, to be released; nullptr if it does not
    // open. A region of other memory at the same addresses becomes stale and will be closed.
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
    size_t regions_ = 0;                         // open, including stale ones
    unsigned domains_ = 0;
    std::atomic<int64_t> idle_bytes_{0}; // negative for a moment while a region changes hands
    std::atomic<uint64_t> releases_{0};
    std::atomic<size_t> limit_{SIZE_MAX};
    Closer closer_;
};

} // namespace gdr::ipc
