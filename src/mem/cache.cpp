// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding, making and forgetting regions.
#include "mem/cache.hpp"

#include <cerrno>
#include <deque>
#include <vector>

namespace gdr::mem {
namespace {

// Storage of regions, for the life of the process.
class RegionPool {
  public:
    static RegionPool& instance()
    {
        static auto* pool =
            new RegionPool; // never destroyed: threads may look at regions until the end
        return *pool;
    }

    Region* take()
    {
        std::lock_guard guard(lock_);
        if (free_.empty()) {
            return &all_.emplace_back();
        }
        Region* region = free_.back();
        free_.pop_back();
        return region;
    }

    void put(Region* region)
    {
        std::lock_guard guard(lock_);
        free_.push_back(region);
    }

  private:
    std::mutex lock_;
    std::deque<Region> all_;
    std::vector<Region*> free_;
};

// The regions a thread used last, by address.
struct RecentRegions {
    static constexpr size_t kCount = 64;
    static constexpr unsigned kShift = 12;
    Region* regions[kCount];

    Region*& slot(uint64_t cache, uintptr_t address)
    {
        return regions[((address >> kShift) ^ (address >> (2 * kShift)) ^ cache) % kCount];
    }
};
thread_local RecentRegions recent;

uint64_t next_cache_id()
{
    static std::atomic<uint64_t> last{0};
    return ++last;
}

// A reference, unless the region has none: then it is nobody's.
bool try_reference(Region& region)
{
    uint32_t references = region.references.load(std::memory_order_relaxed);
    while (references > 0) {
        if (region.references.compare_exchange_weak(references, references + 1,
                                                    std::memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

} // namespace

Cache::Cache(const verbs::Device& hca, ibv_pd* pd, bool keep_host)
    : id_(next_cache_id()), keep_host_(keep_host), registrar_(hca, pd),
      unmaps_seen_(UnmapLog::instance().end())
{
}

Cache::~Cache()
{
    std::lock_guard guard(lock_);
    while (!regions_.empty()) {
        forget(regions_.begin());
    }
}

bool Cache::usable(const Region& region, uintptr_t address, size_t length) const
{
    return region.owner_id == id_ && region.valid.load(std::memory_order_acquire) &&
           region.covers(address, length) &&
           (region.kind == MemoryKind::host
                ? unmaps_seen_.load(std::memory_order_relaxed) == UnmapLog::instance().end()
                : Registrar::same_buffer(region));
}

Region* Cache::acquire(uintptr_t address, size_t length, Failure* failure)
{
    Region*& remembered = recent.slot(id_, address);
    if (remembered != nullptr && try_reference(*remembered)) {
        if (usable(*remembered, address, length)) [[likely]] {
            return remembered;
        }
        release(remembered);
    }
    Region* region = acquire_slow(address, length, failure);
    if (region != nullptr) {
        remembered = region;
    }
    return region;
}

Region* Cache::acquire_slow(uintptr_t address, size_t length, Failure* failure)
{
    std::lock_guard guard(lock_);
    apply_unmaps();
    Region* region = find(address, length);
    if (region == nullptr) {
        region = make(registrar_.describe(address, length), failure);
    }
    if (region != nullptr) {
        region->references.fetch_add(1, std::memory_order_relaxed);
        // That read-only memory becomes writable is not seen.
        if (region->kind == MemoryKind::host && (!keep_host_ || region->read_only)) {
            forget(regions_.find(region->start)); // the caller's reference is the only one
        }
    }
    return region;
}

Region* Cache::find(uintptr_t address, size_t length)
{
    auto next = regions_.upper_bound(address);
    if (next == regions_.begin()) {
        return nullptr;
    }
    auto found = std::prev(next);
    Region* region = found->second;
    if (!region->covers(address, length)) {
        return nullptr;
    }
    if (region->kind == MemoryKind::device && !Registrar::same_buffer(*region)) {
        forget(found); // the memory was freed, and the address given out again
        return nullptr;
    }
    return region;
}

Region* Cache::make(const Target& wanted, Failure* failure)
{
    // Host regions that overlap become one: neighbouring buffers are often used together.
    Target target = wanted;
    if (target.kind == MemoryKind::host) {
        auto overlaps = regions_.lower_bound(target.start);
        if (overlaps != regions_.begin() && std::prev(overlaps)->second->end > target.start) {
            --overlaps;
        }
        for (; overlaps != regions_.end() && overlaps->second->start < wanted.end; ++overlaps) {
            if (overlaps->second->kind == MemoryKind::host) {
                target.start = std::min(target.start, overlaps->second->start);
                target.end = std::max(target.end, overlaps->second->end);
            }
        }
    }
    verbs::MemoryRegion mr = registrar_.register_memory(target, failure);
    if ((!mr || target.read_only) && (target.start != wanted.start || target.end != wanted.end)) {
        target = wanted; // part of the union is gone, or may not be written
        mr = registrar_.register_memory(target, failure);
    }
    if (!mr && failure->error == ENOMEM && forget_unused()) {
        mr = registrar_.register_memory(target, failure);
    }
    if (!mr) {
        return nullptr;
    }
    forget_overlapping(target.start, target.end, false);
    registrations_.fetch_add(1, std::memory_order_relaxed);

    Region* region = RegionPool::instance().take();
    region->owner_id = id_;
    region->start = target.start;
    region->end = target.end;
    region->lkey = mr->lkey;
    region->rkey = mr->rkey;
    region->kind = target.kind;
    region->read_only = target.read_only;
    region->first_buffer_id = target.first_buffer_id;
    region->last_buffer_id = target.last_buffer_id;
    region->mr = std::move(mr);
    region->valid.store(true, std::memory_order_relaxed);
    region->references.store(1, std::memory_order_release); // the cache's
    regions_.emplace(region->start, region);
    return region;
}

void Cache::apply_unmaps()
{
    UnmapLog& log = UnmapLog::instance();
    UnmapLog::Range range;
    uint64_t position = unmaps_seen_.load(std::memory_order_relaxed);
    for (;;) {
        switch (log.read(&position, &range)) {
        case UnmapLog::Result::range:
            forget_overlapping(range.start, range.start + range.length, true);
            break;
        case UnmapLog::Result::lost:
            forget_overlapping(0, UINTPTR_MAX, true);
            break;
        case UnmapLog::Result::none:
            unmaps_seen_.store(position, std::memory_order_relaxed);
            return;
        }
    }
}

void Cache::forget(std::map<uintptr_t, Region*>::iterator found)
{
    Region* region = found->second;
    regions_.erase(found);
    region->valid.store(false, std::memory_order_release);
    release(region);
}

void Cache::forget_overlapping(uintptr_t start, uintptr_t end, bool host_only)
{
    auto region = regions_.upper_bound(start);
    if (region != regions_.begin() && std::prev(region)->second->end > start) {
        --region;
    }
    while (region != regions_.end() && region->second->start < end) {
        auto next = std::next(region);
        if (!host_only || region->second->kind == MemoryKind::host) {
            forget(region);
        }
        region = next;
    }
}

bool Cache::forget_unused()
{
    bool any = false;
    for (auto region = regions_.begin(); region != regions_.end();) {
        auto next = std::next(region);
        if (region->second->references.load(std::memory_order_relaxed) == 1) {
            forget(region);
            any = true;
        }
        region = next;
    }
    return any;
}

void Cache::release(Region* region)
{
    if (region->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        destroy(region);
    }
}

void Cache::invalidate(Region* region, Region::Notification notification)
{
    {
        std::lock_guard guard(lock_);
        if (notification.call != nullptr) {
            region->on_unreachable.push_back(
                notification); // the caller's reference keeps it from destroy()
        }
        if (auto found = regions_.find(region->start);
            found != regions_.end() && found->second == region) {
            forget(found);
        }
    }
    release(region);
}

void Cache::destroy(Region* region)
{
    region->mr.reset();
    std::vector<Region::Notification> notifications;
    notifications.swap(region->on_unreachable);
    RegionPool::instance().put(region);
    for (const Region::Notification& notification : notifications) {
        notification.call(notification.arg);
    }
}

} // namespace gdr::mem
