// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates and compares addresses.

#include "copy/address.hpp"

#include <cstring>
#include <random>

namespace gdr::copy {

Address make_address()
{
    std::random_device random;
    uint64_t high = random();
    return {kAddressTag, high << 32 | random()};
}

bool same_address(const Address& own, const void* address)
{
    return address != nullptr && memcmp(address, &own.tag, sizeof(own.tag)) == 0 &&
           memcmp(address, &own, sizeof(own)) == 0;
}

} // namespace gdr::copy
