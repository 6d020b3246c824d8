// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The registry of all memory the driver knows.
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/softcuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

namespace softcuda {

namespace {

struct Registry {
    std::mutex mutex;
    std::map<uintptr_t, Allocation> by_base;
    uint64_t next_buffer_id = 1;

    /// Called with the lock held.
    Allocation* find(uintptr_t address)
    {
        auto next = by_base.upper_bound(address);
        if (next == by_base.begin()) {
            return nullptr;
        }
        Allocation& candidate = std::prev(next)->second;
        return candidate.contains(address, 1) ? &candidate : nullptr;
    }
};

Registry& registry()
{
    static auto& instance = *new Registry;
    return instance;
}

bool device_address(uintptr_t address)
{
    for (int i = 0; i < device_count(); ++i) {
        if (device(i).addresses().contains(address)) {
            return true;
        }
    }
    return false;
}

} // namespace

size_t offset_in_page(size_t size)
{
    constexpr size_t kSuballocation = 512;
    return size <= kPage - kSuballocation ? kSuballocation : 0;
}

void insert(Allocation allocation)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    auto next = r.by_base.lower_bound(allocation.base);
    bool overlaps = (next != r.by_base.end() && next->first < allocation.base + allocation.size) ||
                    r.find(allocation.base) != nullptr;
    require(!overlaps, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    allocation.buffer_id = r.next_buffer_id++;
    r.by_base.emplace(allocation.base, allocation);
}

std::optional<Allocation> find(uintptr_t address)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    const Allocation* allocation = r.find(address);
    return allocation != nullptr ? std::optional(*allocation) : std::nullopt;
}

Allocation remove(uintptr_t base, std::span<const Kind> kinds)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    auto entry = r.by_base.find(base);
    require(entry != r.by_base.end() &&
            std::find(kinds.begin(), kinds.end(), entry->second.kind) != kinds.end());
    Allocation allocation = entry->second;
    r.by_base.erase(entry);
    return allocation;
}

void modify(uintptr_t address, void (*change)(Allocation&, uint64_t), uint64_t argument)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    Allocation* allocation = r.find(address);
    require(allocation != nullptr);
    change(*allocation, argument);
}

CUdeviceptr allocate_device_memory(Kind kind, int ordinal, size_t size, CUcontext context,
                                   CUmemoryPool pool)
{
    require(size > 0);
    Device& on = device(ordinal);
    require(size <= on.memory(), CUDA_ERROR_OUT_OF_MEMORY);
    size_t alignment = size >= kLargePage ? kLargePage : kPage;
    size_t before = kind == Kind::pool ? kPage : 0;
    size_t reserved_length = round_up(before + size, alignment);
    size_t offset = before + offset_in_page(size);
    Extent extent = on.take(offset + size);
    uintptr_t reserved = on.addresses().take(reserved_length, alignment);
    if (reserved == 0) {
        on.give_back(extent);
        throw Error{CUDA_ERROR_OUT_OF_MEMORY};
    }
    Allocation allocation{kind, reserved + offset, size, ordinal, context};
    allocation.reserved = reserved;
    allocation.reserved_length = reserved_length;
    allocation.extent = extent;
    allocation.pool = pool;
    allocation.rdma_capable = kind == Kind::device;
    if (kind == Kind::pool) {
        allocation.accessible_to = uint32_t{1} << ordinal;
    }
    insert(allocation);
    return allocation.base;
}

size_t pool_usage(CUmemoryPool pool)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    size_t sum = 0;
    for (const auto& [base, allocation] : r.by_base) {
        sum += allocation.pool == pool ? allocation.size : 0;
    }
    return sum;
}

void release(const Allocation& allocation)
{
    if (allocation.ipc_token >= 0) {
        close(allocation.ipc_token);
    }
    switch (allocation.kind) {
    case Kind::device:
    case Kind::pool:
        device(allocation.device)
            .addresses()
            .give_back(allocation.reserved, allocation.reserved_length);
        device(allocation.device).give_back(allocation.extent);
        break;
    case Kind::ipc:
        device(allocation.device)
            .addresses()
            .give_back(allocation.reserved, allocation.reserved_length);
        unmap_memory(allocation.extent);
        break;
    case Kind::managed:
    case Kind::host_alloc:
        munmap(as_pointer(allocation.base), round_up(allocation.size, kPage));
        break;
    case Kind::vmm: // the handle owns the memory, the reservation the addresses
    case Kind::host_registered:
        break;
    }
}

void release_memory(CUcontext context)
{
    std::vector<Allocation> owned;
    {
        Registry& r = registry();
        std::lock_guard guard(r.mutex);
        std::erase_if(r.by_base, [&](const auto& entry) {
            bool own = entry.second.context == context;
            if (own) {
                owned.push_back(entry.second);
            }
            return own;
        });
    }
    for (const Allocation& allocation : owned) {
        release(allocation);
    }
}

namespace {

/// Word by word, as streams look at words meanwhile. What the device itself writes goes to the
/// memory first: a word of its view that changes between the looks is newer than what was found.
void bring_to_view(char* memory, char* view, size_t length)
{
    using Word = uint64_t;
    for (size_t at = 0; at < length; at += sizeof(Word)) { // the last one ends in the same page
        std::atomic_ref seen(*reinterpret_cast<Word*>(view + at));
        Word before = seen.load();
        const Word now = std::atomic_ref(*reinterpret_cast<Word*>(memory + at)).load();
        if (now != before) {
            seen.compare_exchange_strong(before, now);
        }
    }
}

} // namespace

void flush_rdma_writes(int ordinal)
{
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    for (const auto& [base, allocation] : r.by_base) {
        if (allocation.on_device() && allocation.device == ordinal && allocation.extent.view != 0) {
            char* alias = allocation.alias(base);
            bring_to_view(alias, alias + allocation.extent.view, allocation.size);
        }
    }
}

Pieces pieces(uintptr_t address, size_t length, Space space, int ordinal)
{
    Pieces result;
    if (length == 0) {
        return result;
    }
    require(address != 0);
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    const Allocation* allocation = r.find(address);
    if (allocation == nullptr || !allocation->on_device()) {
        require(allocation != nullptr ? allocation->contains(address, length)
                                      : space != Space::device && !device_address(address));
        result.push_back({as_pointer(address), length});
        return result;
    }
    while (length > 0) {
        require(allocation != nullptr && allocation->on_device() &&
                allocation->reached_by(ordinal));
        size_t offset = address - allocation->base;
        size_t here = std::min(length, allocation->size - offset);
        result.push_back({allocation->alias(address), here, allocation->extent.view});
        address += here;
        length -= here;
        allocation = r.find(address);
    }
    return result;
}

std::vector<Allocation> find_consecutive(uintptr_t address, size_t length)
{
    std::vector<Allocation> result;
    uintptr_t end = address + length;
    Registry& r = registry();
    std::lock_guard guard(r.mutex);
    const auto mapping_end = [](const Allocation& a) { return round_up(a.base + a.size, kPage); };
    auto next = r.by_base.lower_bound(round_up(address + 1, kPage));
    if (next != r.by_base.begin() && mapping_end(std::prev(next)->second) > address) {
        --next;
    }
    for (; address < end; ++next) {
        if (next == r.by_base.end() || next->second.mapped_at() > address) {
            return {};
        }
        result.push_back(next->second);
        address = mapping_end(next->second);
    }
    return result;
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT void* softcuda_host_alias(const void* device_ptr, size_t length)
{
    if (!initialised()) {
        return nullptr;
    }
    uintptr_t address = as_address(device_ptr);
    std::optional<Allocation> allocation = find(address);
    if (!allocation || !allocation->on_device() || !allocation->contains(address, length)) {
        return nullptr;
    }
    return allocation->alias(address);
}
