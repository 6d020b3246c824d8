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
    uintptr_t variables, variables_last; // the latter included
    uintptr_t heap;                      // where it is not told, the last address
    const uintptr_t* heap_end;           // grows
};

// The first call reads what it needs of /proc. Any thread.
const ProcessMemory& process_memory();

// That of the calling thread, from which who runs on another one, as coroutines do, can be told; at
// 1 where it is not known. A thread's first call reads what it needs of /proc.
struct Stack {
    uintptr_t start, end;
};
Stack stack_of_thread();

// Whether an address is in one of these, the stack as far as it is used. Without locks and system
// calls, but for first calls.
bool in_process_memory(uintptr_t address);

} // namespace gdr::mem
