// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Protocols v1 do not look what memory they put and get: by UCX's transports within a host, and to
// the process itself, the processor copies it.
#pragma once

namespace gdr::abi {

// The context that is being made has protocols v1: whether it has such transports beside ours. To
// be called while a memory domain is opened.
void look_for_processor_puts();

// Of the contexts of this process so far: whether puts and gets of GPU memory may end it.
bool processor_may_put();

} // namespace gdr::abi
