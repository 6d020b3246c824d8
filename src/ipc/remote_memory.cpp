// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which regions there are, and which of them go.
#include "ipc/remote_memory.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gdr::ipc {

namespace {

// Memory is mapped in pages of this size: less of it is not returned to its owner either.
constexpr size_t kPage = size_t{2} << 20;

// A GPU that this process uses, best the one that the calling thread uses; -1: none.
CUdevice device_in_use(const cuda::Driver& driver, int devices)
{
    CUdevice device;
    CUcontext current = nullptr;
    if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr &&
        driver.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        return device;
    for (device = 0; device < devices; ++device) {
        if (cuda::has_primary_context(driver, device))
            return device;
    }
    return -1;
}

int count_devices(const cuda::Driver& driver)
{
    int count = 0;
    cuda::check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
}

} // namespace

struct RemoteMemory::Entry : Region {
    using Region::Region;

    size_t bytes() const { return std::max<size_t>(key().length, kPage); }

    Entries::iterator place; // in used_ or idle_
    uint64_t uses = 0;
    bool stale = false; // not among the owner's entries any more
};

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
        if (--domains_ > 0)
            return;
        trim(0);
    }
    closer_.finish();
}

void RemoteMemory::connect(uint64_t owner)
{
    const std::lock_guard guard(mutex_);
    ++owners_[owner].endpoints;
}

void RemoteMemory::disconnect(uint64_t owner)
{
    const std::lock_guard guard(mutex_);
    if (--owners_.at(owner).endpoints == 0)
        close_idle(owner);
}

// With the lock held, as what follows.
void RemoteMemory::close_idle(uint64_t id)
{
    auto owner = owners_.find(id);
    auto& entries = owner->second.entries;
    for (auto at = entries.begin(); at != entries.end();) {
        Entry& entry = *at->second;
        if (entry.uses > 0) {
            ++at;
            continue;
        }
        at = entries.erase(at);
        entry.stale = true;
        close(idle_, entry);
    }
    if (entries.empty() && owner->second.endpoints == 0)
        owners_.erase(owner);
}

void RemoteMemory::close(Entries& list, Entry& entry)
{
    if (&list == &idle_)
        idle_bytes_ -= entry.bytes();
    if (!entry.stale) {
        auto owner = owners_.find(entry.key().owner);
        owner->second.entries.erase(entry.key().base);
        if (owner->second.entries.empty() && owner->second.endpoints == 0)
            owners_.erase(owner);
    }
    const auto place = entry.place;
    closer_.add(std::move(*place));
    list.erase(place);
}

void RemoteMemory::trim(size_t limit)
{
    while (idle_bytes_ > limit)
        close(idle_, *idle_.front());
}

// What lies where the new allocation does was freed.
void RemoteMemory::take_out_stale(Owner& owner, const RemoteKey& key)
{
    auto at = owner.entries.upper_bound(key.base);
    if (at != owner.entries.begin())
        --at;
    while (at != owner.entries.end() && at->first < key.base + key.length) {
        Entry& entry = *at->second;
        if (at->first + entry.key().length <= key.base) {
            ++at;
            continue;
        }
        at = owner.entries.erase(at);
        entry.stale = true;
        if (entry.uses == 0)
            close(idle_, entry);
    }
}

void RemoteMemory::use(Entry& entry)
{
    if (entry.uses++ == 0) {
        idle_bytes_ -= entry.bytes();
        used_.splice(used_.end(), idle_, entry.place);
    }
}

RemoteMemory::Entry& RemoteMemory::find_or_add(const cuda::Driver& driver, const RemoteKey& key)
{
    Owner& owner = owners_[key.owner];
    const auto known = owner.entries.find(key.base);
    if (known != owner.entries.end() && known->second->is(key)) {
        use(*known->second);
        return *known->second;
    }
    take_out_stale(owner, key);
    used_.push_back(std::make_unique<Entry>(driver, count_devices(driver), key));
    Entry& entry = *used_.back();
    entry.place = std::prev(used_.end());
    entry.uses = 1;
    owner.entries.emplace(key.base, &entry);
    return entry;
}

// A region that does not open stays too, as one that is known not to.
Region* RemoteMemory::acquire(const cuda::Driver& driver, const RemoteKey& key)
{
    Entry* entry;
    {
        const std::lock_guard guard(mutex_);
        entry = &find_or_add(driver, key);
    }
    if (entry->first_device() < 0) {
        const CUdevice device = device_in_use(driver, count_devices(driver));
        if (device < 0 || entry->reach(device, key.base) == 0) {
            release(entry);
            return nullptr;
        }
    }
    return entry;
}

void RemoteMemory::release(Region* region)
{
    auto& entry = *static_cast<Entry*>(region);
    const std::lock_guard guard(mutex_);
    if (--entry.uses > 0)
        return;
    if (entry.stale) {
        close(used_, entry);
        return;
    }
    idle_.splice(idle_.end(), used_, entry.place);
    idle_bytes_ += entry.bytes();
    trim(limit_);
}

RemoteMemory::Counts RemoteMemory::counts()
{
    const std::lock_guard guard(mutex_);
    return {used_.size() + idle_.size(), idle_bytes_};
}

} // namespace gdr::ipc
