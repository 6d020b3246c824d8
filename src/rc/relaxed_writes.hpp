// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Order between hosts whose HCAs have no registrations but with relaxed ordering of PCIe: what a
// peer writes may overtake what it has written before, on the peer's bus, in spite of a fence or a
// flush, which say only that the HCA has it. A read of the same memory does not overtake writes. So
// the first operation after a fence or a flush that writes waits for a read of the memory that it
// is for, once for each remote key.
#pragma once

#include "abi/iface.hpp"

#include <array>

namespace gdr::rc {

struct Iface;

// Of an interface.
struct ReadsBeforeWrites {
    uct_iface_ops_t operations{}; // as they were
    unsigned orders = 0;          // fences and flushes, of all endpoints
};

// Of an endpoint: the remote keys that were read by last, and how many orders there had been.
struct LastRead {
    uct_rkey_t rkey = UCT_INVALID_RKEY;
    unsigned orders = 0;
};
using LastReads = std::array<LastRead, 4>;

// Puts this before the interface's operations.
void read_before_writes(Iface& iface);

} // namespace gdr::rc
