// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which library is responsible for a call: the innermost one on the stack that is not merely
// passing it on (libc, libstdc++, the loader, libucs, sanitizers, the program's own interposers).
#pragma once

namespace ucptest {

constexpr int kCallers = 32;

// Records the libraries that are loaded now. Call it after all have been loaded: stacks are
// attributed without a lock or an allocation.
void remember_libraries();

// The index of the responsible library. 0: the program itself or something unknown. skip: return
// addresses above this one in the stack to leave out.
int caller(int skip);

// The library's file name without directory; nullptr beyond the last.
const char* caller_name(int index);

// Whether the library is this project's: the one that is loaded, or the module with its code.
bool is_ours(int index);

} // namespace ucptest
