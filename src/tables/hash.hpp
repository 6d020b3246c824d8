// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Hashing for small tables.
#pragma once

#include <cstdint>

namespace gdr::tables {

// Returns a hash of so many bits. It spreads values that lie at distances of a power of two, as
// addresses and pages often do.
template <unsigned bits>
constexpr uint64_t fibonacci_hash(uint64_t value)
{
    return (value * 0x9e3779b97f4a7c15) >> (64 - bits);
}

} // namespace gdr::tables
