// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The program's own host memory that was pinned for copies, by the application or by the MPI layer.
// It counts as ordinary host memory, while memory that CUDA allocated can become anything after it
// is freed.
#pragma once

#include <cstdint>

namespace gdr::mem::own_pins {

// Identified by the Pointer::buffer_id that it has as long as it is pinned; 0 is ignored. Only the
// last few hundred are remembered: a forgotten one only costs driver calls. Any thread.
void add(uint64_t buffer_id);
bool contain(uint64_t buffer_id);

} // namespace gdr::mem::own_pins
