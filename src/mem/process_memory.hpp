// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that is ordinary host memory for as long as it is there, so that neither CUDA need be
// asked nor its unmapping be seen: where UCX's memory hooks are off, the only such there is.
#pragma once

#include <cstdint>

namespace gdr::mem {

// Whether an address is in the program's own variables, in the heap that sbrk() grows
// (malloc's, of the main thread, but for large blocks) or in the used part of the calling thread's
// stack. Without locks and system calls, but that a thread's first question reads what it needs of
// /proc.
bool in_process_memory(uintptr_t address);

} // namespace gdr::mem
