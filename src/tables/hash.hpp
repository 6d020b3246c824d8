// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Places in small tables.
#pragma once

#include <cstdint>

namespace gdr::tables {

// Of so many bits: what is hashed, addresses and pages, often lies at distances of a power of two.
// The lowest bits, ignored, are the same in all values.
template <unsigned bits, unsigned ignored = 0>
constexpr uint64_t fibonacci_hash(uint64_t value)
{
    return (value * (0x9e3779b97f4a7c15 >> ignored)) >> (64 - bits);
}

} // namespace gdr::tables
