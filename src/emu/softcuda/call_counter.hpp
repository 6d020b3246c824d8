// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Counts of calls, and whether calls are possible. Does without cuda.h.
#pragma once

#include <atomic>
#include <cstdint>

namespace softcuda {

/// Called at the beginning of each driver API call; null: nothing is. See softcuda_watch_calls().
extern std::atomic<void (*)(const char* name)> call_watcher;

/// Number of calls of one exported function; all of them form a list that is never freed.
struct CallCounter {
    explicit CallCounter(const char* name);
    const char* name;
    std::atomic<uint64_t> calls{0};
    CallCounter* next;
};

/// False before cuInit and in a forked child.
bool initialised();

} // namespace softcuda
