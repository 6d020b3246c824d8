// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Places of pages in small tables.
#pragma once

#include <cstdint>

namespace gdr::mem {

// Fibonacci hashing to so many bits: buffers often lie at distances of a power of two.
template <unsigned bits>
constexpr uint64_t hash_page(uint64_t page)
{
    return (page * 0x9e3779b97f4a7c15) >> (64 - bits);
}

} // namespace gdr::mem
