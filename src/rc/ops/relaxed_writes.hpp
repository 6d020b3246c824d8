// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Order between hosts whose HCAs have only registrations with PCIe relaxed ordering: a peer's write
// may overtake its earlier writes on the target's bus, in spite of a fence or flush, which only say
// that the HCA has the data. A read of the same memory does not overtake writes. So the first
// writing operation after a fence or flush waits for a read of its target memory, once for each
// remote key.
#pragma once

namespace gdr::rc {

struct Iface;

// Inserts the reads before the interface's operations.
void read_before_writes(Iface& iface);

} // namespace gdr::rc
