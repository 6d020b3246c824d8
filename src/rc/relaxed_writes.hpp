// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Order between hosts whose HCAs have no registrations but with relaxed ordering of PCIe: what a
// peer writes may overtake what it has written before, on the peer's bus, in spite of a fence. A
// read of the same memory does not overtake writes. So what is written, or changed by an atomic,
// after a fence waits for a read of the memory that it is for, once for each fence and remote key.
#pragma once

namespace gdr::rc {

struct Iface;

// Puts this before the interface's operations.
void read_before_writes(Iface& iface);

} // namespace gdr::rc
