// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The address of a copy interface. UCP asks interfaces of one transport name about each other's
// addresses, so RC addresses arrive here too, and addresses of other processes always do. A type
// tag identifies the former, a random number the latter.
#pragma once

#include <cstdint>

namespace gdr::copy {

struct [[gnu::packed]] Address {
    uint32_t tag; // kAddressTag; first, because addresses of other types may be shorter
    uint64_t id;  // random, one for each interface
};

inline constexpr uint32_t kAddressTag = 0x59504367; // "gCPY" in memory

// Creates an address that no other interface of any process has.
Address make_address();

// Compares own with address as UCP passes it: unaligned, of any transport called gdr, or NULL.
bool same_address(const Address& own, const void* address);

} // namespace gdr::copy
