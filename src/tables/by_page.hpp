// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small table indexed by the page of an address, two-way set-associative: two buffers that are
// used alternately do not evict each other, wherever they lie. A set keeps the last two pages that
// were added. A page holds only the value of the last buffer used in it, so each value has to say
// which buffer it is for.
#pragma once

#include "tables/hash.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::tables {

// The table has 2^set_bits sets.
template <class Value, unsigned set_bits>
class ByPage {
  public:
    // NULL: the page is not in the table.
    [[gnu::always_inline]] Value* find(uintptr_t address)
    {
        Set& set = set_of(address);
        const uintptr_t page = page_of(address);
        if (set.pages[0] == page) {
            return &set.values[0];
        }
        return set.pages[1] == page ? &set.values[1] : nullptr;
    }

    // Adds the page with an empty value if it is not in the table.
    [[gnu::always_inline]] Value& operator[](uintptr_t address)
    {
        Value* known = find(address);
        return known != nullptr ? *known : take(address);
    }

  private:
    static constexpr unsigned kPageShift = 12;

    struct Set {
        uintptr_t pages[2] = {}; // 0: empty
        Value values[2] = {};
    };

    // A page is represented by its last address, which is never 0.
    static uintptr_t page_of(uintptr_t address)
    {
        return address | ((uintptr_t{1} << kPageShift) - 1);
    }

    Set& set_of(uintptr_t address)
    {
        if constexpr (set_bits == 0) {
            return sets_[0];
        } else {
            return sets_[fibonacci_hash<set_bits>(address >> kPageShift)];
        }
    }

    [[gnu::noinline]] Value& take(uintptr_t address)
    {
        Set& set = set_of(address);
        set.pages[1] = set.pages[0];
        set.values[1] = set.values[0];
        set.pages[0] = page_of(address);
        return set.values[0] = Value{};
    }

    Set sets_[size_t{1} << set_bits];
};

} // namespace gdr::tables
