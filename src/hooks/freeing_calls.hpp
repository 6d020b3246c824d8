// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Hooks in the CUDA driver's calls that free memory, installed by UCX's patcher: what a UCX built
// with CUDA has, and a stock one lacks. Programs come through them whichever runtime they use:
// cuGetProcAddress returns the functions that are patched.
#pragma once

#include <cstdint>
#include <string>

namespace gdr::hooks {

// Called by the thread that calls the driver, which may be any, and also this module's own. May
// lock and call the driver.
struct Listener {
    void (*before_free)(uintptr_t start, uintptr_t end); // memory that is about to go
    void (*after_context)(); // a context is gone, and with it all memory that it owned
};

// Once in a process, when CUDA is initialised; the hooks stay installed. Empty: from now on the
// listener hears of all memory that is freed by these calls. Otherwise what keeps some of it from
// being seen; what can be patched is patched nevertheless.
//
// Not seen are frees in the order of a stream, which may come long after the call and behind a
// transfer that the stream waits for; frees inside the driver, by the nodes of a graph; and what
// other processes do with memory that they share.
std::string watch_frees(const Listener& listener);

} // namespace gdr::hooks
