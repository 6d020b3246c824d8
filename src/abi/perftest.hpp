// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx_perftest's table of memory allocators: one slot for each memory type, filled by whoever can
// allocate that type (ucx_perftest -m cuda).
#pragma once

#include "abi/base.hpp"

namespace gdr::abi {

// ucx_perf_allocator_t, the same in all series. The context is a ucx_perf_context_t, memory a
// uct_allocated_memory_t.
struct PerftestAllocator {
    ucs_memory_type_t mem_type;
    ucs_status_t (*init)(void* context);
    ucs_status_t (*uct_alloc)(const void* context, size_t length, unsigned flags, void* memory);
    void (*uct_free)(const void* context, void* memory);
    void (*memcpy)(void* to, ucs_memory_type_t to_type, const void* from,
                   ucs_memory_type_t from_type, size_t count);
    void* (*memset)(void* to, int value, size_t count);
};

// The beginning of uct_allocated_memory_t, which later series extend.
struct PerftestMemory {
    void* address;
    size_t length;
    uct_alloc_method_t method;
    ucs_memory_type_t mem_type;
    uct_md_h md;
    uct_mem_h memh;
};

// Puts the allocator into its slot. False: this process is not ucx_perftest.
bool set_perftest_allocator(const PerftestAllocator& allocator);

// For a test's context: the rank of this process, and the memory domain (NULL: a UCP test).
unsigned perftest_rank(const void* context);
uct_md_h perftest_md(const void* context);

} // namespace gdr::abi
