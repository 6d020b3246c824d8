// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registration cache of one HCA, or of the CPU for device memory. It registers memory once,
// finds the registration again as long as the memory is the same, and never uses it afterwards.
// UnmapLog reports unmapped host memory; device memory is checked by CUDA's buffer id at each use.
//
// Finding a region again takes no lock: each thread remembers the regions that it used last. The
// storage of a region never returns to the system, so a thread may examine a remembered pointer
// whatever became of the region.
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
    // keep_host: host registrations may be kept because unmapping is seen. watch_frees: the first
    // registration of device memory installs hooks in the driver; by then UCX is known.
    Cache(const verbs::Device& hca, ibv_pd* pd, bool keep_host, bool watch_frees = false,
          Relaxed relaxed = {});
    explicit Cache(std::unique_ptr<Registrar> registrar, bool keep_host = false,
                   bool watch_frees = false);
    ~Cache(); // every region must have been released
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // Returns a region that covers [address, address + length) and grants the access, with a
    // reference for the caller; NULL and the failure otherwise.
    Region* acquire(uintptr_t address, size_t length, Access access, Failure* failure);

    // Registers device memory to find out whether that is possible. It stays registered until
    // something else needs the room. Gives up no registration that others may need.
    struct Proof {
        enum class Outcome {
            not_asked, // the HCA takes no memory of this GPU
            registered,
            refused,
        };
        Outcome outcome = Outcome::not_asked;
        uintptr_t start = 0; // the registered range
        uintptr_t end = 0;
        std::string limit; // why the range is not the whole memory; empty if that was not tried
    };
    Proof prove(uintptr_t address, size_t length);

    // Finds out whether the HCA takes memory of this GPU, unless it is known. False: it could not
    // be found out.
    bool learn(const cuda::Pointer& memory);
    void learn_all(); // the same for every GPU

    // Whether device memory was ever acquired.
    bool serves_device_memory() const { return serves_device_.load(std::memory_order_relaxed); }

    // A counter of events, in any cache, that may change a proof.
    static uint64_t changes();

    // Returns the region to use for [address, address + length) if the caller has held region,
    // which has changes_unseen, for a while: region itself if the memory is still the same,
    // otherwise another region, which lives as long as region. NULL and the failure: the memory is
    // gone.
    static Region* current(Region* region, uintptr_t address, size_t length, Failure* failure);

    // Returns the caller's reference.
    static void release(Region* region);

    // Like release(), but nobody finds the region again. If notification has a call, it is called
    // once peers can no longer access the memory through this registration: when the last reference
    // is gone.
    void invalidate(Region* region, Region::Notification notification);

    // Deregisters unmapped host memory unless it is in use. The system gets the memory back only
    // then; acquire() deregisters no more than it needs.
    void collect_unmapped();

    // To be called before device memory in this range is freed. Nobody finds its registrations
    // again, and they end before this returns, whoever holds them, because nobody may use the
    // memory any more. A registration that extends beyond the range, over mappings of cuMemCreate
    // that stay, ends when nobody holds it or when the last of these mappings is freed.
    void end_freed(uintptr_t start, uintptr_t end);

    // Whether the calling thread holds the lock of a cache. Memory that it frees then was never
    // registered.
    static bool any_locked_by_this_thread();

    // The same for device memory that was freed unseen: checks each registration.
    void collect_freed();

    bool of_hca() const { return registrar_->gpu_direct() != nullptr; }
    const GpuDirect& gpu_direct() const { return *registrar_->gpu_direct(); } // only if of_hca()
    uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }

  private:
    bool usable(const Region& region, uintptr_t address, size_t length, Access access) const;
    Region* acquire_slow(uintptr_t address, size_t length, Access access, Failure* failure);

    // Valid regions, by start. They may overlap, as buffers that share a page do, but none lies
    // within another: so the last region that begins before an address reaches farthest.
    using Regions = std::map<uintptr_t, Region*>;

    // The caller holds lock_.
    void apply_unmaps();
    Region* find(uintptr_t address, size_t length, Access access);
    Region* find_in(Regions& regions, uintptr_t address, size_t length);
    enum class Room { free, unused }; // room to take: free, or of unused regions too
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

    // Continues a walk over the regions, checks some of device memory, and takes out those whose
    // memory was freed: with dmabuf the GPU's driver keeps freed memory as long as it is
    // registered.
    struct Swept {
        std::vector<Region*> dead; // to be passed to end()
        size_t seen = 0;           // regions seen, including host memory
    };
    Swept sweep();
    void take_out(Regions::iterator region);
    std::vector<Region*> take_remnants(uintptr_t start, uintptr_t end);

    // Deregisters freed memory, whoever holds the regions, and releases the regions.
    static void end(const std::vector<Region*>& dead);
    static void destroy(Region* region); // after the last reference

    const uint64_t id_; // never reused in the process
    const bool keep_host_;
    const bool watch_frees_;
    const std::unique_ptr<Registrar> registrar_;
    std::atomic<uint64_t> unmaps_seen_;
    std::atomic<uint64_t> registrations_{0};
    std::atomic<bool> serves_device_{false};

    // Marks the thread as holding lock_, because its own driver calls may free memory.
    class Lock;

    std::mutex lock_; // taken to make and forget regions, not to find them again
    // By access: a small region that peers may access can lie within a large one that they may not
    // access.
    std::array<Regions, 2> regions_;
    // Taken out because some of their memory was freed; each holds a reference and ends when all
    // its memory is freed.
    std::vector<Region*> remnants_;
    uintptr_t swept_ = 0; // start of the last region that sweep() saw
    // First buffer ids of memory that could not be registered as a whole.
    std::set<uint64_t> in_parts_;
};

} // namespace gdr::mem
