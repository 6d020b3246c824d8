// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that is ordinary host memory for as long as it is there, so that neither CUDA need be
// asked nor its unmapping be seen: where UCX's memory hooks are off, the only such there is.
#pragma once

#include <cstdint>

namespace gdr::mem {

// The program's own variables, and the heap that sbrk() grows (malloc's, of the main thread, but
// for large blocks).
struct ProcessMemory {
    uintptr_t variables, variables_end;
    uintptr_t heap;            // where it is not told, the last address
    const uintptr_t* heap_end; // grows
};

// The first call reads what it needs of /proc. Any thread.
const ProcessMemory& process_memory();

// Where the stack of the calling thread ends, that is began; 1 where that is not known.
uintptr_t end_of_stack();

// Whether an address is in either, or in the used part of the calling thread's stack. Without locks
// and system calls, but that a thread's first question reads what it needs of /proc.
bool in_process_memory(uintptr_t address);

} // namespace gdr::mem
