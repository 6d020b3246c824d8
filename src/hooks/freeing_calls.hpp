// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Hooks in the CUDA driver's calls that free memory, installed with UCX's patcher. A UCX built with
// CUDA has such hooks, a stock one does not. Programs pass through them whichever runtime they use:
// cuGetProcAddress returns the patched functions.
#pragma once

#include <cstdint>
#include <string>

namespace gdr::hooks {

// Called by the thread that calls the driver, which may be any thread, this module's included. May
// lock and call the driver.
struct Listener {
    void (*before_free)(uintptr_t start, uintptr_t end); // memory that is about to be freed
    void (*after_context)(); // a context is gone, with all memory that it owned
};

// Once in a process, when CUDA is initialised; the hooks stay installed. An empty result: from now
// on the listener learns of all memory that these calls free. Otherwise the result says why some
// frees are missed; what can be patched is patched nevertheless.
//
// The hooks do not see stream-ordered frees, which may happen long after the call and behind a
// transfer that the stream waits for; frees inside the driver, by nodes of a graph; and what other
// processes do with shared memory.
std::string watch_frees(const Listener& listener);

} // namespace gdr::hooks
