// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration cache of one HCA, or of the CPU for device memory: a registration is made once,
// found again for as long as the memory is the same, and never used after. Host memory is watched
// through UnmapLog; device memory is compared by CUDA's buffer id each time it is found.
//
// Finding a region again takes no lock: each thread remembers the regions it used last, and a
// region's storage is never returned to the system, so a remembered pointer can be examined
// whatever became of it.
#pragma once

#include "mem/registrar.hpp"
#include "mem/unmap_log.hpp"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace gdr::mem {

// Any thread may call any member.
class Cache {
  public:
    // keep_host: host registrations may be kept, since unmapping is seen. watch_frees: the first
    // registration of device memory installs hooks in the driver, UCX having been chosen.
    Cache(const verbs::Device& hca, ibv_pd* pd, bool keep_host, bool watch_frees = false);
    explicit Cache(std::unique_ptr<Registrar> registrar, bool keep_host = false,
                   bool watch_frees = false);
    ~Cache(); // every region must have been released
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // A region that covers [address, address + length) and grants the access, with a reference for
    // the caller; NULL and the failure otherwise.
    Region* acquire(uintptr_t address, size_t length, Access access, Failure* failure);

    // Whether device memory can be registered, found out by doing so: it stays registered, as long
    // as nothing else needs the room. What others may need is not given up for it.
    struct Proof {
        enum class Outcome {
            not_asked, // the HCA takes no memory of this GPU
            registered,
            refused,
        };
        Outcome outcome = Outcome::not_asked;
        uintptr_t start = 0; // of what is registered
        uintptr_t end = 0;
        std::string limit; // why it is not all, if that was tried
    };
    Proof prove(uintptr_t address, size_t length);

    // Whether the HCA takes memory of this GPU is found out, unless that was before. False: it
    // could not be.
    bool learn(const cuda::Pointer& memory);
    void learn_all(); // of each GPU

    // Whether device memory was ever acquired.
    bool serves_device_memory() const { return serves_device_.load(std::memory_order_relaxed); }

    // Counts what may change a proof, in any cache.
    static uint64_t changes();

    // What serves [address, address + length) where the caller holds region, with changes_unseen,
    // and may have held it for long: region itself, if that is still of the memory that is there,
    // or another, which lives as long as region. NULL and the failure: the memory is not there.
    static Region* current(Region* region, uintptr_t address, size_t length, Failure* failure);

    // Gives the reference back.
    static void release(Region* region);

    // release(), and nobody finds the region again; notification, if it has a call, is called once
    // the HCA no longer lets anybody at the memory by it: with the last reference.
    void invalidate(Region* region, Region::Notification notification);

    // Deregisters what is registered of host memory that was unmapped, unless it is in use: as long
    // as it is registered the system does not have it back. acquire() does no more than it needs.
    void collect_unmapped();

    // Device memory in this range is about to be freed: nobody finds its registrations again, and
    // they end before this returns, whoever holds them, since nobody may use the memory any more.
    // One that goes on beyond the range, over mappings of cuMemCreate that stay, ends when nobody
    // holds it, or when the last of these is freed.
    void end_freed(uintptr_t start, uintptr_t end);

    // Whether the calling thread is in a cache: what it frees there was registered with none.
    static bool any_locked_by_this_thread();

    // The same for device memory that was freed unseen: asks about each registration.
    void collect_freed();

    bool of_hca() const { return registrar_->gpu_direct() != nullptr; }
    const GpuDirect& gpu_direct() const { return *registrar_->gpu_direct(); } // of an HCA's
    uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }

  private:
    bool usable(const Region& region, uintptr_t address, size_t length, Access access) const;
    Region* acquire_slow(uintptr_t address, size_t length, Access access, Failure* failure);

    // Valid ones, by start. They may overlap, as buffers do in the pages that they share, but none
    // lies within another: so of those that begin before an address the last reaches farthest.
    using Regions = std::map<uintptr_t, Region*>;

    // With lock_ held.
    void apply_unmaps();
    Region* find(uintptr_t address, size_t length, Access access);
    Region* find_in(Regions& regions, uintptr_t address, size_t length);
    enum class Room { free, unused }; // what a registration may take
    Region* make(Target target, uintptr_t address, size_t length, Room room, Failure* failure);
    Registration register_device(Target& target, uintptr_t address, size_t length,
                                 Failure* failure);
    Regions& of(Access access) { return regions_[static_cast<size_t>(access)]; }
    Regions& of_device() { return of(Access::remote); }
    void forget(Regions::iterator region);
    void forget_overlapping(uintptr_t start, uintptr_t end, const auto& is_meant);
    void forget_superseded(const Region& by);
    bool forget_unused();
    void ask_for_room();

    // Goes on looking through the regions, at some of device memory, and takes out those whose
    // memory was freed: with dmabuf the GPU's driver keeps it as long as it is registered.
    struct Swept {
        std::vector<Region*> dead; // for end()
        size_t seen = 0;           // regions, of host memory too
    };
    Swept sweep();
    void take_out(Regions::iterator region);
    std::vector<Region*> take_remnants(uintptr_t start, uintptr_t end);

    // The registrations of freed memory, whoever holds them; gives the references back.
    static void end(const std::vector<Region*>& dead);
    static void destroy(Region* region); // the last reference is gone

    const uint64_t id_; // of this cache, never used again in the process
    const bool keep_host_;
    const bool watch_frees_;
    const std::unique_ptr<Registrar> registrar_;
    std::atomic<uint64_t> unmaps_seen_;
    std::atomic<uint64_t> registrations_{0};
    std::atomic<bool> serves_device_{false};

    // Held by its thread, whose own calls of the driver may free, too.
    class Lock;

    std::mutex lock_; // taken to make and forget regions, not to find them again
    // By access: a small region that peers may reach can lie within a large one that they may not.
    std::array<Regions, 2> regions_;
    // Taken out because memory in them was freed, with a reference each, to be ended when all is.
    std::vector<Region*> remnants_;
    uintptr_t swept_ = 0; // the start of the last region that sweep() saw
    // First buffer ids of memory that could not be registered as a whole.
    std::set<uint64_t> in_parts_;
};

} // namespace gdr::mem
