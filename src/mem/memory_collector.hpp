// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Returns registered memory that the process has unmapped or freed to the system and the GPUs, even
// if nothing is transferred for a long time.
#pragma once

namespace gdr::mem {

// As long as a collector lives, UCX's async thread makes the caches collect: at once when much was
// unmapped or registered, and every second for freed GPU memory.
class MemoryCollector {
  public:
    MemoryCollector(); // throws std::exception
    ~MemoryCollector();
    MemoryCollector(const MemoryCollector&) = delete;
    MemoryCollector& operator=(const MemoryCollector&) = delete;
};

} // namespace gdr::mem
