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

} // namespace gdr::tables
