// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The address of a copy interface. UCP asks interfaces of one transport name about each other's
// addresses, so the RC transport's arrive here too, and other processes' always do: a type tag
// tells the former apart, a random number the latter.
#pragma once

#include <cstdint>

namespace gdr::copy {

struct [[gnu::packed]] Address {
    uint32_t tag; // kAddressTag. First, so that no byte behind a shorter foreign address is read.
    uint64_t id;  // random, one for each interface
};

inline constexpr uint32_t kAddressTag = 0x59504367; // "gCPY" in memory

// A new address that no other interface of any process has.
Address make_address();

// address as UCP passes it: unaligned, of any transport called gdr, or NULL.
bool same_address(const Address& own, const void* address);

} // namespace gdr::copy
