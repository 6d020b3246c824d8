// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small table by the page of an address, two-way set-associative: two series of buffers that are
// used by turns do not push each other out, wherever they lie. Of pages that share a set the last
// two have a place. A page stands for one of its buffers, the last: each value has to tell what it
// is for.
#pragma once

#include "tables/hash.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::tables {

// Of 2^set_bits sets.
template <class Value, unsigned set_bits>
class ByPage {
  public:
    // NULL where the page has no place.
    [[gnu::always_inline]] Value* find(uintptr_t address)
    {
        Set& set = set_of(address);
        const uintptr_t page = page_of(address);
        if (set.pages[0] == page)
            return &set.values[0];
        return set.pages[1] == page ? &set.values[1] : nullptr;
    }

    // A page that has no place gets one, with an empty value.
    [[gnu::always_inline]] Value& operator[](uintptr_t address)
    {
        Value* known = find(address);
        return known != nullptr ? *known : take(address);
    }

  private:
    static constexpr unsigned kPageShift = 12;

    struct Set {
        uintptr_t pages[2] = {}; // 0: none
        Value values[2] = {};
    };

    // A page goes by its last address, which none has that is 0.
    static uintptr_t page_of(uintptr_t address)
    {
        return address | ((uintptr_t{1} << kPageShift) - 1);
    }

    Set& set_of(uintptr_t address)
    {
        if constexpr (set_bits == 0)
            return sets_[0];
        else
            return sets_[fibonacci_hash<set_bits>(address >> kPageShift)];
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
