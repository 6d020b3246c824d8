// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that stays ordinary host memory as long as it exists: neither CUDA need be asked nor its
// unmapping be seen. If UCX's memory hooks are off, no other memory is known to be so.
#pragma once

#include <cstdint>

namespace gdr::mem {

// The program's own variables, and the heap that sbrk() grows (malloc uses it for the main thread,
// except for large blocks).
struct ProcessMemory {
    uintptr_t variables, variables_last; // both inclusive
    uintptr_t heap;                      // the last address if it is unknown
    const uintptr_t* heap_end;           // grows
};

// The first call reads /proc. Any thread.
const ProcessMemory& process_memory();

// The stack of the calling thread. Code that runs on another stack, as coroutines do, can be told
// from it; {1, 1} if it is unknown. A thread's first call reads /proc.
struct Stack {
    uintptr_t start, end;
};
Stack stack_of_thread();

// Whether an address is in one of these; of the stack only the used part counts. Makes no system
// call and takes no lock, apart from first calls.
bool in_process_memory(uintptr_t address);

} // namespace gdr::mem
