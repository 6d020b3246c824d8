// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocator of device addresses: a reserved range that the CPU cannot touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace softcuda {

/// Hands out ranges. A range that was given back is used again by the next request of the same
/// size, so that programs meet the same address with other memory behind it. Thread safe.
class AddressSpace {
  public:
    /// Reserves `length` bytes of address space; throws std::bad_alloc.
    explicit AddressSpace(size_t length);

    /// A free range, or 0. `length` and `alignment` are multiples of the page size. With `wanted`
    /// not 0, that address is used when it is free.
    uintptr_t take(size_t length, size_t alignment, uintptr_t wanted = 0);
    void give_back(uintptr_t address, size_t length);

    bool contains(uintptr_t address) const { return address - begin_ < length_; }

  private:
    bool carve(uintptr_t address, size_t length);

    uintptr_t begin_;
    const size_t length_;
    std::mutex mutex_;
    std::map<uintptr_t, size_t> free_;                   // neighbours are merged
    std::map<size_t, std::vector<uintptr_t>> last_used_; // by length; may be taken meanwhile
};

} // namespace softcuda
