// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Gives back to the system and to the GPUs what the process unmapped and freed while it was
// registered, also when nothing is transferred for long.
#pragma once

namespace gdr::mem {

// As long as one lives, UCX's asynchronous thread makes the caches collect: what was unmapped and
// what was registered since, where that is much, at once, and every second memory of GPUs that was
// freed.
class MemoryCollector {
  public:
    MemoryCollector(); // throws std::exception
    ~MemoryCollector();
    MemoryCollector(const MemoryCollector&) = delete;
    MemoryCollector& operator=(const MemoryCollector&) = delete;
};

} // namespace gdr::mem
