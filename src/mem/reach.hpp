// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the HCAs of this process reach a piece of device memory. UCP decides by the memory's
// type, and fails or aborts if the registration then fails, so it must know before. The answer
// comes from a registration that the transfer finds again.
#pragma once

#include "cuda/pointer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gdr::mem {

struct Reach {
    bool staged = false; // an HCA cannot register it: it needs copies through host memory
    // The registered range around the memory in question, whole or in part; staged: the range in
    // question.
    uintptr_t start = 0;
    uintptr_t end = UINTPTR_MAX;
    std::string limit; // why the range is not whole; empty if that was reported before
};

// Answers for [address, address + length), which begins in this device memory. Asks the HCAs that
// have registered device memory for UCP, or all HCAs while none has. HCAs that take no memory of
// this GPU are left out. Takes no lock and makes no driver call as long as the last answer holds.
// Any thread. Throws cuda::Error.
Reach reach(const cuda::Pointer& memory, uintptr_t address, size_t length);

} // namespace gdr::mem
