// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pages lately seen to be ordinary host memory, so that CUDA need not be asked about them again. A
// page cannot become CUDA's without being unmapped and mapped anew, of which unmap_watch tells,
// provided that it was the program's own memory: readable by the CPU, and not known to CUDA.
//
// One four-way set-associative table for the process, of words that each tell of themselves alone,
// so that there is no lock, and nothing to bring up to date before a look. A word is only ever
// written with a page that the caller of add() holds, or cleared: nobody can bring back what
// another thread has just seen unmapped.
//
// Each short operation looks here, and UCP for each buffer: every instruction counts.
#pragma once

#include "tables/page_sets.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gdr::mem::host_pages {

// A buffer takes the page that it starts in: 1,024 buffers at the same distance, of most distances,
// are all known.
struct alignas(32) Set {
    std::atomic<uintptr_t> pages[GDR_PAGE_WAYS]; // 0: none

    [[gnu::always_inline]] bool has(uintptr_t page) const
    {
        return is(0, page) || is(1, page) || is(2, page) || is(3, page);
    }
    bool is(unsigned way, uintptr_t page) const
    {
        return pages[way].load(std::memory_order_relaxed) == page;
    }
};
static_assert(GDR_PAGE_WAYS == 4); // as has() counts them
using Sets = Set[size_t{1} << GDR_PAGE_SET_BITS];
extern Sets sets;
// For who may not look at those: whether he may is no question of its own.
extern const Sets no_sets;

// Whether the page of this address is known to be ordinary host memory. Any thread.
[[gnu::always_inline]] inline bool contains(uintptr_t address)
{
    const uintptr_t page = gdr_page_of(address);
    return sets[gdr_page_set_of(page)].has(page);
}

// Remembers the page of an address that CUDA does not know, if the CPU can read it: what CUDA has
// freed, but keeps reserved, can be given out again without a word. The caller sees to it that the
// page stays mapped until this returns. One system call. Any thread.
void add(uintptr_t address);

// The range is about to be unmapped, or has just been mapped. Any thread, any context: no lock, no
// allocation.
void forget(uintptr_t start, size_t length);

} // namespace gdr::mem::host_pages
