// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration cache of one HCA: a registration is made once, found again for as long as the
// memory is the same, and never used after. Host memory is watched through UnmapLog; device memory
// is compared by CUDA's buffer id each time it is found.
//
// Finding a region again takes no lock: each thread remembers the regions it used last, and a
// region's storage is never returned to the system, so a remembered pointer can be examined
// whatever became of it.
#pragma once

#include "mem/registrar.hpp"
#include "mem/unmap_log.hpp"

#include <map>
#include <mutex>

namespace gdr::mem {

// Any thread may call any member.
class Cache {
  public:
    // keep_host: host registrations may be kept, since unmapping is seen.
    Cache(const verbs::Device& hca, ibv_pd* pd, bool keep_host);
    ~Cache(); // every region must have been released
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // A region that covers [address, address + length), with a reference for the caller; NULL and
    // the failure otherwise.
    Region* acquire(uintptr_t address, size_t length, Failure* failure);

    // Gives the reference back.
    static void release(Region* region);

    // release(), and nobody finds the region again; notification, if it has a call, is called once
    // the HCA no longer lets anybody at the memory by it: with the last reference.
    void invalidate(Region* region, Region::Notification notification);

    const GpuDirect& gpu_direct() const { return registrar_.gpu_direct(); }
    uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }

  private:
    bool usable(const Region& region, uintptr_t address, size_t length) const;
    Region* acquire_slow(uintptr_t address, size_t length, Failure* failure);

    // With lock_ held.
    void apply_unmaps();
    Region* find(uintptr_t address, size_t length);
    Region* make(const Target& wanted, Failure* failure);
    void forget(std::map<uintptr_t, Region*>::iterator region);
    void forget_overlapping(uintptr_t start, uintptr_t end, bool host_only);
    bool forget_unused();

    static void destroy(Region* region); // the last reference is gone

    const uint64_t id_; // of this cache, never used again in the process
    const bool keep_host_;
    Registrar registrar_;
    std::atomic<uint64_t> unmaps_seen_;
    std::atomic<uint64_t> registrations_{0};

    std::mutex lock_; // taken to make and forget regions, not to find them again
    std::map<uintptr_t, Region*> regions_; // valid ones, by start; they do not overlap
};

} // namespace gdr::mem
