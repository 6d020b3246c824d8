// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which pinned host memory is a program's own that was pinned for copies, the application's or that
// of the MPI layer: as ordinary as before, where what CUDA has allocated can be anything after it
// is freed.
#pragma once

#include <cstdint>

namespace gdr::mem::own_pins {

// By the Pointer::buffer_id that it has as long as it is pinned; nothing for 0. The last few
// hundred are known: more only cost questions. Any thread.
void add(uint64_t buffer_id);
bool contain(uint64_t buffer_id);

} // namespace gdr::mem::own_pins
