// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the HCAs of this process reach a piece of device memory. UCP decides by the memory's type
// and fails or aborts where the registration then does, so it has to be told before: the answer is
// a registration, which the transfer finds again.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gdr::mem {

struct Reach {
    bool staged = false; // an HCA cannot register it: only copies through host memory reach it
    // What is registered around what was asked for, all of the memory or a part; staged: what was
    // asked for.
    uintptr_t start = 0;
    uintptr_t end = UINTPTR_MAX;
    std::string limit; // why it is not all; empty if that was found out before
};

// Of [address, address + length), which begins in this device memory. HCAs are asked that have
// registered device memory for UCP; while none has, all are. Those that take no memory of this GPU
// have no say. No lock and no call of the driver as long as what was found out last holds. Any
// thread. Throws cuda::Error.
Reach reach(const cuda::Pointer& memory, uintptr_t address, size_t length);

} // namespace gdr::mem
