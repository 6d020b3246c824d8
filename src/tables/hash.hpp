// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Places in small tables.
#pragma once

#include <cstdint>

namespace gdr::tables {

// Of so many bits: what is hashed, addresses and pages, often lies at distances of a power of two.
template <unsigned bits>
constexpr uint64_t fibonacci_hash(uint64_t value)
{
    return (value * 0x9e3779b97f4a7c15) >> (64 - bits);
}

// Of the 32 bits above the lowest ones, ignored, which are the same in all values. The factor is an
// operand of the multiplication: 2^32 / golden ratio, less 2^32.
template <unsigned bits, unsigned ignored>
constexpr uint64_t short_fibonacci_hash(uint64_t value)
{
    constexpr auto kFactor = static_cast<uint64_t>(int64_t{-0x61c88647});
    return value * kFactor >> (32 + ignored - bits) & ((uint64_t{1} << bits) - 1);
}

} // namespace gdr::tables
