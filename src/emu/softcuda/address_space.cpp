// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocator of device addresses.
#include "emu/softcuda/address_space.hpp"

#include <sys/mman.h>

#include <iterator>
#include <new>

namespace softcuda {

namespace {

constexpr size_t kBaseAlignment = size_t{2} << 20;

} // namespace

AddressSpace::AddressSpace(size_t length) : length_(length)
{
    void* range = mmap(nullptr, length + kBaseAlignment, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        throw std::bad_alloc();
    }
    begin_ = (reinterpret_cast<uintptr_t>(range) + kBaseAlignment - 1) & ~(kBaseAlignment - 1);
    free_.emplace(begin_, length_);
}

bool AddressSpace::carve(uintptr_t address, size_t length)
{
    auto range = free_.upper_bound(address);
    if (range == free_.begin()) {
        return false;
    }
    --range;
    auto [start, size] = *range;
    if (address + length > start + size) {
        return false;
    }
    if (address > start) {
        range->second = address - start;
    } else {
        free_.erase(range);
    }
    if (size_t rest = start + size - (address + length); rest > 0) {
        free_.emplace(address + length, rest);
    }
    return true;
}

uintptr_t AddressSpace::take(size_t length, size_t alignment, uintptr_t wanted)
{
    std::lock_guard guard(mutex_);
    if (wanted != 0 && wanted % alignment == 0 && contains(wanted) && carve(wanted, length)) {
        return wanted;
    }
    if (auto recent = last_used_.find(length); recent != last_used_.end()) {
        while (!recent->second.empty()) {
            uintptr_t address = recent->second.back();
            recent->second.pop_back();
            if (address % alignment == 0 && carve(address, length)) {
                return address;
            }
        }
        last_used_.erase(recent);
    }
    for (auto [start, size] : free_) {
        uintptr_t address = (start + alignment - 1) & ~(alignment - 1);
        if (address + length <= start + size) {
            carve(address, length);
            return address;
        }
    }
    return 0;
}

void AddressSpace::give_back(uintptr_t address, size_t length)
{
    std::lock_guard guard(mutex_);
    last_used_[length].push_back(address);
    auto [range, fresh] = free_.emplace(address, length);
    if (auto next = std::next(range); next != free_.end() && next->first == address + length) {
        range->second += next->second;
        free_.erase(next);
    }
    if (range != free_.begin()) {
        auto previous = std::prev(range);
        if (previous->first + previous->second == address) {
            previous->second += range->second;
            free_.erase(range);
        }
    }
}

} // namespace softcuda
