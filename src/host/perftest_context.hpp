// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What ucx_perftest's private structures say of a test. They are read where the series of this UCX
// has them. The program may be of another UCX, or changed, so each value is checked: memory that
// the CPU cannot read, what should be a function and is no code, a memory domain of another
// component are not taken for what is asked.
#pragma once

#include "abi/perftest.hpp"

#include <optional>

namespace gdr::host::perftest {

// Whether this variable of the program can be the table: it has slots for CUDA's memory types, and
// that of host memory is empty or has an allocator of host memory.
bool is_table(const void* table);

// Of a ucx_perf_context_t: the rank of this process.
std::optional<unsigned> rank(const void* context);

// The memory domain of a test of UCT.
uct_md_h memory_domain(const void* context);

} // namespace gdr::host::perftest
