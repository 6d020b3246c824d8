// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small table by the page of an address. Of pages that share a place the last one has it: each
// value has to tell what it is for.
#pragma once

#include "tables/hash.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::tables {

// Of 2^bits places.
template <class Value, unsigned bits>
class ByPage {
  public:
    Value& operator[](uintptr_t address)
    {
        return values_[fibonacci_hash<bits>(address >> kPageShift)];
    }

  private:
    static constexpr unsigned kPageShift = 12;
    Value values_[size_t{1} << bits];
};

} // namespace gdr::tables
