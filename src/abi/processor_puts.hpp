// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Protocols v1 do not check the memory type of puts and gets: UCX's transports within a host, and
// to the process itself, copy the memory with the CPU.
#pragma once

namespace gdr::abi {

// The context that is being made uses protocols v1: notes whether it has such transports beside
// ours. To be called while a memory domain is opened.
void look_for_processor_puts();

// For all contexts of this process so far: whether puts and gets of GPU memory may crash it.
bool processor_may_put();

} // namespace gdr::abi
