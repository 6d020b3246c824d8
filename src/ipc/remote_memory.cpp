// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keeps the regions, and chooses which to close.
#include "ipc/remote_memory.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace gdr::ipc {

namespace {

// How long to wait for earlier memory that is still open where the owner now has other memory:
// closing takes 20 us, but lasts as long as any running kernel.
constexpr std::chrono::milliseconds kPatience{10};

// A GPU that this process uses, preferably the calling thread's; -1: none.
CUdevice device_in_use(const cuda::Driver& driver)
{
    CUdevice device;
    CUcontext current = nullptr;
    if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr &&
        driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
        return device;
    }
    int devices = 0;
    cuda::check(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
    for (device = 0; device < devices; ++device) {
        if (cuda::has_primary_context(driver, device)) {
            return device;
        }
    }
    return -1;
}

// The regions that a thread used last, by key. Only a user of a region knows whether it is still
// the same.
thread_local std::array<Region*, 64> recent;

Region*& remembered(const RemoteKey& key)
{
    return recent[((key.base >> 12) ^ (key.base >> 21) ^ key.owner) % recent.size()];
}

} // namespace

RemoteMemory& RemoteMemory::instance()
{
    static auto& instance = *new RemoteMemory; // outlives static destructors that use UCX
    return instance;
}

void RemoteMemory::enter(size_t limit)
{
    const std::lock_guard guard(mutex_);
    ++domains_;
    limit_ = limit;
}

void RemoteMemory::leave()
{
    {
        const std::lock_guard guard(mutex_);
        if (--domains_ > 0) {
            return;
        }
        for (auto& [id, owner] : owners_) {
            close_unused(owner);
        }
        std::erase_if(owners_, [](const auto& owner) {
            return owner.second.regions.empty() && owner.second.endpoints == 0;
        });
    }
    closer_.finish();
}

void RemoteMemory::connect(uint64_t owner)
{
    const std::lock_guard guard(mutex_);
    Owner& known = owners_[owner];
    if (known.endpoints++ == 0) {
        for (auto& [base, region] : known.regions) {
            region->left_over = false;
        }
    }
}

void RemoteMemory::disconnect(uint64_t id)
{
    const std::lock_guard guard(mutex_);
    Owner& owner = owners_.at(id);
    if (--owner.endpoints > 0) {
        return;
    }
    for (auto& [base, region] : owner.regions) {
        region->left_over = true; // before the attempt: a current user then closes it
    }
    close_left_over(id);
}

// False: it is being closed.
bool RemoteMemory::use(Region& region)
{
    size_t no_longer_idle;
    if (!region.try_use(&no_longer_idle)) {
        return false;
    }
    idle_bytes_ -= static_cast<int64_t>(no_longer_idle);
    return true;
}

// Only a user of a region may read its key: otherwise its storage may become another region's.
bool RemoteMemory::use_again(Region& region, const RemoteKey& key)
{
    if (!use(region)) {
        return false;
    }
    if (region.is(key) && !region.stale) [[likely]] {
        return true;
    }
    end_use(region);
    return false;
}

// A region that does not open stays too, so that this is known.
Region* RemoteMemory::acquire(const cuda::Driver& driver, const RemoteKey& key)
{
    Region*& region = remembered(key);
    if (region == nullptr || !use_again(*region, key)) [[unlikely]] {
        region = find_or_add(driver, key);
    }
    Region* const found = region;
    if (found->first_device() >= 0) [[likely]] {
        return found;
    }
    if (const CUdevice device = device_in_use(driver); device >= 0) {
        if (found->open_for(device)) {
            return found;
        }
        if (found->collides()) {
            closer_.wait_for(kPatience);
            if (found->open_for(device)) {
                return found;
            }
            found->put_off();
        }
    }
    release(found);
    return nullptr;
}

void RemoteMemory::release(Region* region)
{
    region->idle_since.store(releases_.fetch_add(1, std::memory_order_relaxed),
                             std::memory_order_relaxed);
    end_use(*region);
}

void RemoteMemory::end_use(Region& region)
{
    bool last;
    const size_t idle_now = region.end_use(&last);
    if (!last) {
        return;
    }
    const int64_t idle = idle_bytes_ += static_cast<int64_t>(idle_now);
    const bool beyond = idle > 0 && static_cast<size_t>(idle) > limit_;
    if (!beyond && !region.stale && !region.left_over) [[likely]] {
        return;
    }
    const std::lock_guard guard(mutex_);
    if (region.stale) {
        close_if_unused(region);
    } else if (region.left_over) {
        close_left_over(region.key().owner);
    }
    trim();
}

RemoteMemory::Counts RemoteMemory::counts()
{
    const std::lock_guard guard(mutex_);
    return {regions_, static_cast<size_t>(idle_bytes_)};
}

Region* RemoteMemory::find_or_add(const cuda::Driver& driver, const RemoteKey& key)
{
    const std::lock_guard guard(mutex_);
    Owner& owner = owners_[key.owner];
    const auto known = owner.regions.find(key.base);
    if (known != owner.regions.end() && known->second->is(key) && use(*known->second)) {
        return known->second;
    }
    take_out_stale(owner, key);
    Region::Owned region = Region::make(driver, key);
    owner.regions.emplace(key.base, region.get());
    ++regions_;
    return region.release();
}

// Memory that overlaps the new allocation was freed. The caller holds the lock, here and below.
void RemoteMemory::take_out_stale(Owner& owner, const RemoteKey& key)
{
    auto at = owner.regions.upper_bound(key.base);
    if (at != owner.regions.begin()) {
        --at;
    }
    while (at != owner.regions.end() && at->first < key.base + key.length) {
        Region& region = *at->second;
        if (at->first + region.key().length <= key.base) {
            ++at;
            continue;
        }
        at = owner.regions.erase(at);
        region.stale = true; // before the attempt: a current user then closes it
        close_if_unused(region);
    }
}

// The region is not in its owner's table, or the caller removes it next.
bool RemoteMemory::close_if_unused(Region& region)
{
    size_t no_longer_idle;
    if (!region.claim(&no_longer_idle)) {
        return false;
    }
    idle_bytes_ -= static_cast<int64_t>(no_longer_idle);
    --regions_;
    closer_.add(Region::Owned(&region));
    return true;
}

void RemoteMemory::close_unused(Owner& owner)
{
    std::erase_if(owner.regions, [&](auto& region) { return close_if_unused(*region.second); });
}

void RemoteMemory::close_left_over(uint64_t id)
{
    const auto owner = owners_.find(id);
    if (owner == owners_.end() || owner->second.endpoints > 0) {
        return;
    }
    close_unused(owner->second);
    if (owner->second.regions.empty()) {
        owners_.erase(owner);
    }
}

// Closes the regions that have been idle longest, several at once, because looking at all takes
// long.
void RemoteMemory::trim()
{
    const size_t limit = limit_;
    const auto is_beyond = [&](size_t bytes) {
        const int64_t idle = idle_bytes_;
        return idle > 0 && static_cast<size_t>(idle) > bytes;
    };
    if (!is_beyond(limit)) {
        return;
    }
    std::vector<std::pair<uint64_t, Region*>> unused;
    for (auto& [id, owner] : owners_) {
        for (auto& [base, region] : owner.regions) {
            if (region->is_idle()) {
                unused.emplace_back(region->idle_since, region);
            }
        }
    }
    std::ranges::sort(unused);
    for (auto at = unused.begin(); at != unused.end() && is_beyond(limit - limit / 8); ++at) {
        const auto owner = owners_.find(at->second->key().owner);
        const uint64_t base = at->second->key().base;
        if (!close_if_unused(*at->second)) {
            continue;
        }
        owner->second.regions.erase(base);
        if (owner->second.regions.empty() && owner->second.endpoints == 0) {
            owners_.erase(owner);
        }
    }
}

} // namespace gdr::ipc
