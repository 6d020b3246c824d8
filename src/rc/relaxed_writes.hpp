// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Order between hosts whose HCAs have only registrations with PCIe relaxed ordering: a peer's write
// may overtake its earlier writes on the target's bus, in spite of a fence or flush, which only say
// that the HCA has the data. A read of the same memory does not overtake writes. So the first
// writing operation after a fence or flush waits for a read of its target memory, once for each
// remote key.
#pragma once

#include "abi/iface.hpp"

#include <array>

namespace gdr::rc {

struct Iface;

// State of an interface.
struct ReadsBeforeWrites {
    uct_iface_ops_t operations{}; // the original ones
    unsigned orders = 0;          // fences and flushes of all endpoints
};

// State of an endpoint: a remote key that was read by, and the number of orders at that time.
struct LastRead {
    uct_rkey_t rkey = UCT_INVALID_RKEY;
    unsigned orders = 0;
};
using LastReads = std::array<LastRead, 4>;

// Inserts the reads before the interface's operations.
void read_before_writes(Iface& iface);

} // namespace gdr::rc
