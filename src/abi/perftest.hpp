// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is private to ucx_perftest: its table of memory allocators, one slot for each memory type,
// filled by whoever can allocate that type (ucx_perftest -m cuda), and the context of a test.
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

// Places in ucx_perf_context_t. The component is followed by the memory domain; it stands elsewhere
// in a UCX built with assertions, and is NULL in a test of UCP.
struct PerftestOffsets {
    size_t rte_group;   // the argument of group_index()
    size_t rte;         // ucx_perf_rte_t
    size_t group_index; // in that: a function that returns the rank of this process
    size_t component;
    size_t component_assert;
};

} // namespace gdr::abi
