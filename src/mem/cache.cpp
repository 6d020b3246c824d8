// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds, makes and forgets regions.
#include "mem/cache.hpp"

#include "host/registration_cache.hpp"
#include "mem/caches.hpp"
#include "mem/freed_watch.hpp"
#include "tables/by_page.hpp"

#include <cerrno>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

namespace gdr::mem {
namespace {

// Storage of regions for the life of the process.
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

// The regions that a thread used last, by cache and address. Two sets of 64 buffers at distances of
// any powers of two do not evict each other.
struct RecentRegions {
    tables::ByPage<Region*, 9> regions;

    Region*& of(uint64_t cache, uintptr_t address) { return regions[address ^ cache << 32]; }
};
thread_local constinit RecentRegions recent{};

uint64_t next_cache_id()
{
    static std::atomic<uint64_t> last{0};
    return ++last;
}

std::atomic<uint64_t> changes_of_device_memory{0};

// Takes a reference unless the region has none: then the pool owns it.
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

bool is_host(const Region& region)
{
    return region.kind == MemoryKind::host;
}

thread_local constinit unsigned locks_held = 0;

} // namespace

class Cache::Lock {
  public:
    explicit Lock(std::mutex& lock) : guard_(lock) { ++locks_held; }
    ~Lock() { --locks_held; }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    std::lock_guard<std::mutex> guard_;
};

Cache::Cache(const verbs::Device& hca, ibv_pd* pd, bool keep_host, bool watch_frees,
             Relaxed relaxed)
    : Cache(std::make_unique<HcaRegistrar>(hca, pd, relaxed), keep_host, watch_frees)
{
}

Cache::Cache(std::unique_ptr<Registrar> registrar, bool keep_host, bool watch_frees)
    : id_(next_cache_id()), keep_host_(keep_host), watch_frees_(watch_frees),
      registrar_(std::move(registrar)), unmaps_seen_(UnmapLog::instance().end())
{
    if (watch_frees_) {
        listen_to_own_cuda();
    }
    Caches::instance().add(*this);
}

Cache::~Cache()
{
    Caches::instance().remove(*this);
    const Lock guard(lock_);
    for (Regions& regions : regions_) {
        while (!regions.empty()) {
            forget(regions.begin());
        }
    }
    for (Region* region : remnants_) {
        release(region);
    }
}

// Whoever acquires memory that was unmapped before, by itself or by a thread that it synchronised
// with, must not get a registration of the old memory. It sees the unmapping counted in the log's
// end. If the cache's position equals this end, everything unmapped was forgotten before the
// position moved there. So the position is read first (acquire, paired with the release in
// apply_unmaps()), and valid after it. Otherwise the log is read under the lock.
bool Cache::usable(const Region& region, uintptr_t address, size_t length, Access access) const
{
    const uint64_t position = unmaps_seen_.load(std::memory_order_acquire);
    return region.owner_id == id_ && region.valid.load(std::memory_order_acquire) &&
           region.covers(address, length) && region.access >= access &&
           (region.kind == MemoryKind::host ? position == UnmapLog::instance().end()
                                            : Registrar::same_buffer(region, address, length));
}

Region* Cache::acquire(uintptr_t address, size_t length, Access access, Failure* failure)
{
    Region*& remembered = recent.of(id_, address);
    if (remembered != nullptr && try_reference(*remembered)) {
        if (usable(*remembered, address, length, access)) [[likely]] {
            return remembered;
        }
        release(remembered);
    }
    Region* region = acquire_slow(address, length, access, failure);
    if (region != nullptr) {
        remembered = region;
    }
    return region;
}

Region* Cache::acquire_slow(uintptr_t address, size_t length, Access access, Failure* failure)
{
    const Lock guard(lock_);
    apply_unmaps();
    Region* region = find(address, length, access);
    if (region != nullptr) {
        region->references.fetch_add(1, std::memory_order_relaxed);
    } else {
        region = make(registrar_->describe(address, length, access), address, length, Room::unused,
                      failure);
    }
    if (region != nullptr && region->kind == MemoryKind::device && !serves_device_memory()) {
        serves_device_.store(true, std::memory_order_relaxed);
        changes_of_device_memory.fetch_add(1, std::memory_order_release);
    }
    return region;
}

Region* Cache::current(Region* region, uintptr_t address, size_t length, Failure* failure)
{
    const auto serves = [&](const Region& one) {
        return one.covers(address, length) && !one.read_only &&
               (one.kind == MemoryKind::host || Registrar::same_buffer(one, address, length));
    };
    while (!serves(*region)) {
        Region* next = region->successor.load(std::memory_order_acquire);
        if (next == nullptr) {
            next = region->cache->acquire(address, length, region->access, failure);
            if (next != nullptr && next->read_only && region->covers(address, length)) { // still
                release(next);
                return region;
            }
            Region* other = nullptr;
            if (next != nullptr && !region->successor.compare_exchange_strong(
                                       other, next, std::memory_order_acq_rel)) {
                release(next);
                next = other;
            }
        }
        if (next == nullptr || next->kind != region->kind) {
            return nullptr;
        }
        region = next;
    }
    return region;
}

Cache::Proof Cache::prove(uintptr_t address, size_t length)
{
    const Lock guard(lock_);
    apply_unmaps();
    Region* region = find(address, length, Access::remote);
    if (region != nullptr) {
        return {Proof::Outcome::registered, region->start, region->end, {}};
    }
    const Target target = registrar_->describe(address, length, Access::remote);
    if (gpu_direct().method(target.gpu) == Method::none) {
        return {};
    }
    Failure failure;
    region = make(target, address, length, Room::free, &failure);
    if (region == nullptr) {
        return {Proof::Outcome::refused, 0, 0, failure.cause};
    }
    Proof proof{Proof::Outcome::registered, region->start, region->end, failure.cause};
    release(region);
    return proof;
}

bool Cache::learn(const cuda::Pointer& memory)
{
    const Lock guard(lock_);
    return registrar_->learn(memory);
}

void Cache::learn_all()
{
    const Lock guard(lock_);
    registrar_->learn_all();
}

uint64_t Cache::changes()
{
    return changes_of_device_memory.load(std::memory_order_acquire);
}

void Cache::collect_unmapped()
{
    const Lock guard(lock_);
    apply_unmaps();
}

Region* Cache::find(uintptr_t address, size_t length, Access access)
{
    Region* region = find_in(of(Access::remote), address, length);
    if (region == nullptr && access == Access::local) {
        region = find_in(of(Access::local), address, length);
    }
    return region;
}

Region* Cache::find_in(Regions& regions, uintptr_t address, size_t length)
{
    auto next = regions.upper_bound(address);
    if (next == regions.begin()) {
        return nullptr;
    }
    auto found = std::prev(next);
    Region* region = found->second;
    if (!region->covers(address, length)) {
        return nullptr;
    }
    if (region->kind == MemoryKind::device && !Registrar::same_buffer(*region, address, length)) {
        forget(found); // the memory was freed and the address reused
        return nullptr;
    }
    return region;
}

void Cache::take_out(Regions::iterator found)
{
    Region* region = found->second;
    region->valid.store(false, std::memory_order_release);
    of(region->access).erase(found);
}

void Cache::forget(Regions::iterator found)
{
    Region* region = found->second;
    take_out(found);
    release(region);
}

void Cache::forget_overlapping(uintptr_t start, uintptr_t end, const auto& is_meant)
{
    for (Regions& regions : regions_) {
        auto region = regions.upper_bound(start);
        while (region != regions.begin() && std::prev(region)->second->end > start) {
            --region;
        }
        while (region != regions.end() && region->second->start < end) {
            auto next = std::next(region);
            if (is_meant(*region->second)) {
                forget(region);
            }
            region = next;
        }
    }
}

// Registers the whole memory, so that it happens only once. If that fails, registers the requested
// part, and only parts as long as the memory lives.
Registration Cache::register_device(Target& target, uintptr_t address, size_t length,
                                    Failure* failure)
{
    constexpr size_t kMostInParts = 4096; // the set is cleared when it is full
    end(sweep().dead);
    const uint64_t id = target.buffer_ids.first();
    const Target part = Registrar::narrowed(target, address, length);
    Registration made;
    if (!in_parts_.contains(id)) {
        made = registrar_->register_memory(target, failure);
        if (!made && failure->error == ENOMEM) {
            for (size_t seen = 0, all = of_device().size(); seen < all;) {
                Swept swept = sweep();
                seen += swept.seen;
                end(swept.dead);
            }
            made = registrar_->register_memory(target, failure);
        }
        if (made || failure->unsupported ||
            (part.start == target.start && part.end == target.end)) {
            return made;
        }
        if (in_parts_.size() >= kMostInParts) {
            in_parts_.clear();
        }
        in_parts_.insert(id);
    }
    target = part;
    Failure of_part;
    made = registrar_->register_memory(target, &of_part);
    if (!made) {
        *failure = of_part;
    }
    return made;
}

Region* Cache::make(Target target, uintptr_t address, size_t length, Room room, Failure* failure)
{
    const bool device = target.kind == MemoryKind::device;
    const bool frees_reported = device && watch_frees_ && frees_are_reported();
    const auto attempt = [&] {
        return device ? register_device(target, address, length, failure)
                      : registrar_->register_memory(target, failure);
    };
    Registration made = attempt();
    if (!made && failure->error == ENOMEM && room == Room::unused && forget_unused()) {
        made = attempt();
    }
    if (!made) {
        if (failure->error == ENOMEM && room == Room::unused) {
            ask_for_room();
        }
        return nullptr;
    }
    registrations_.fetch_add(1, std::memory_order_relaxed);
    if (device) {
        Caches::instance().alarm().add(target.end - target.start);
    }

    // The cache would not see read-only memory become writable.
    const bool kept = device || (keep_host_ && !target.read_only);
    Region* region = RegionPool::instance().take();
    region->owner_id = id_;
    region->start = target.start;
    region->end = target.end;
    if (made.mr) {
        region->lkey = made.relaxed ? made.relaxed->lkey : made.mr->lkey;
        region->rkey = made.mr->rkey;
    }
    region->kind = target.kind;
    region->access = target.access;
    region->read_only = target.read_only;
    region->buffer_ids = target.buffer_ids;
    region->changes_unseen = device ? !frees_reported || target.in_stream_order : target.read_only;
    region->cache = this;
    static_cast<Registration&>(*region) = std::move(made);
    region->valid.store(kept, std::memory_order_relaxed);
    region->references.store(kept ? 2 : 1, std::memory_order_release); // the caller's and ours
    if (kept) {
        forget_superseded(*region);
        of(region->access).emplace(region->start, region);
    }
    return region;
}

// Forgets regions that lie within the new one and grant no more, and regions of other memory that
// was here before.
void Cache::forget_superseded(const Region& by)
{
    forget_overlapping(by.start, by.end, [&](const Region& region) {
        return (region.start >= by.start && region.end <= by.end && region.access <= by.access) ||
               region.kind != by.kind ||
               (region.kind == MemoryKind::device && !Registrar::same_buffer(region));
    });
}

void Cache::apply_unmaps()
{
    const uint64_t position = UnmapLog::instance().read(
        unmaps_seen_.load(std::memory_order_relaxed),
        [this](UnmapLog::Range range) { forget_overlapping(range.start, range.end, is_host); });
    unmaps_seen_.store(position, std::memory_order_release); // after the regions were forgotten
}

Cache::Swept Cache::sweep()
{
    constexpr size_t kMostSteps = 1024;
    Swept swept;
    // Each look costs a driver call of about 80 ns; a registration costs at least 40 us.
    size_t looks = 64;
    Regions& regions = of_device();
    for (size_t steps = std::min(kMostSteps, regions.size()); steps > 0 && looks > 0; --steps) {
        auto next = regions.upper_bound(swept_);
        if (next == regions.end()) {
            next = regions.begin();
        }
        swept_ = next->first;
        ++swept.seen;
        if (!is_host(*next->second)) {
            --looks;
            if (!Registrar::same_buffer(*next->second)) {
                remnants_.push_back(next->second);
                take_out(next);
            }
        }
    }
    swept.dead = take_remnants(0, 0);
    return swept;
}

// Works in small batches, so that transfers wait for one batch only and for no deregistration.
void Cache::collect_freed()
{
    if (cuda::open_driver() == nullptr) {
        return;
    }
    size_t left = SIZE_MAX;
    while (left > 0) {
        Swept swept;
        {
            const Lock guard(lock_);
            left = std::min(left, of_device().size());
            swept = sweep();
        }
        left -= std::min(left, swept.seen);
        end(swept.dead);
    }
}

bool Cache::any_locked_by_this_thread()
{
    return locks_held > 0;
}

void Cache::end_freed(uintptr_t start, uintptr_t end)
{
    std::vector<Region*> dead;
    {
        const Lock guard(lock_);
        Regions& regions = of_device();
        auto region = regions.upper_bound(start);
        while (region != regions.begin() && std::prev(region)->second->end > start) {
            --region;
        }
        while (region != regions.end() && region->second->start < end) {
            auto next = std::next(region);
            if (!is_host(*region->second)) {
                remnants_.push_back(region->second);
                take_out(region);
            }
            region = next;
        }
        dead = take_remnants(start, end);
    }
    Cache::end(dead);
}

// Returns regions with nothing left outside [start, end), and regions that nobody else holds.
std::vector<Region*> Cache::take_remnants(uintptr_t start, uintptr_t end)
{
    const auto stays = [&](const Region* region) {
        return region->references.load(std::memory_order_acquire) > 1 &&
               region->buffer_ids.any_left(*cuda::open_driver(), start, end);
    };
    const auto first = std::partition(remnants_.begin(), remnants_.end(), stays);
    std::vector<Region*> dead(first, remnants_.end());
    remnants_.erase(first, remnants_.end());
    return dead;
}

// Keeps the CPU's mappings, because somebody may be copying through them.
void Cache::end(const std::vector<Region*>& dead)
{
    for (Region* region : dead) {
        host::registration_cache().end_registrations(reinterpret_cast<void*>(region->start),
                                                     region->end - region->start);
        region->mr.reset();
        region->relaxed.reset();
        changes_of_device_memory.fetch_add(1, std::memory_order_release);
        release(region);
    }
}

bool Cache::forget_unused()
{
    bool any = false;
    for (Regions& regions : regions_) {
        for (auto region = regions.begin(); region != regions.end();) {
            auto next = std::next(region);
            if (region->second->references.load(std::memory_order_relaxed) == 1) {
                forget(region);
                any = true;
            }
            region = next;
        }
    }
    return any;
}

// UCP releases what it keeps at its next registration.
void Cache::ask_for_room()
{
    for (const auto& [start, region] : of_device()) {
        host::registration_cache().end_registrations(reinterpret_cast<void*>(start),
                                                     region->end - start);
    }
}

void Cache::release(Region* region)
{
    if (region->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        destroy(region);
    }
}

void Cache::invalidate(Region* region, Region::Notification notification)
{
    if (Region* successor = region->successor.exchange(nullptr, std::memory_order_acquire)) {
        invalidate(successor, std::exchange(notification, {})); // peers access that one
    }
    {
        const Lock guard(lock_);
        if (notification.call != nullptr) {
            region->on_unreachable.push_back(
                notification); // the caller's reference keeps the region from destroy()
        }
        Regions& regions = of(region->access);
        if (auto found = regions.find(region->start);
            found != regions.end() && found->second == region) {
            forget(found);
        }
    }
    release(region);
}

void Cache::destroy(Region* region)
{
    const bool registered = static_cast<bool>(static_cast<Registration&>(*region));
    static_cast<Registration&>(*region) = {};
    if (Region* successor = region->successor.exchange(nullptr, std::memory_order_acquire)) {
        release(successor);
    }
    if (registered && !is_host(*region)) {
        changes_of_device_memory.fetch_add(1, std::memory_order_release);
    }
    std::vector<Region::Notification> notifications;
    notifications.swap(region->on_unreachable);
    RegionPool::instance().put(region);
    for (const Region::Notification& notification : notifications) {
        notification.call(notification.arg);
    }
}

} // namespace gdr::mem
