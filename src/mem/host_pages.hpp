// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pages recently seen to be ordinary host memory, so that CUDA need not be asked about them again.
// A page of the program's own memory (readable by the CPU and unknown to CUDA) becomes CUDA's only
// if it is unmapped and mapped anew, and unmap_watch reports both.
//
// The process has one four-way set-associative table. Each word is self-contained, so a lookup
// needs no lock and no update first. A word is only written with a page that the caller of add()
// holds, or cleared: nobody can bring back a page that another thread has just seen unmapped.
//
// Each short operation looks here, and UCP does for each buffer, so every instruction counts.
#pragma once

#include "mpi/contract/page_sets.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gdr::mem::host_pages {

// A buffer takes the entry of the page that it starts in. 1,024 buffers at equal distances, for
// most distances, fit together.
struct alignas(32) Set {
    std::atomic<uintptr_t> pages[GDR_PAGE_WAYS]; // 0: empty

    [[gnu::always_inline]] bool has(uintptr_t page) const
    {
        return is(0, page) || is(1, page) || is(2, page) || is(3, page);
    }
    bool is(unsigned way, uintptr_t page) const
    {
        return pages[way].load(std::memory_order_relaxed) == page;
    }
};
static_assert(GDR_PAGE_WAYS == 4); // has() lists them
using Sets = Set[size_t{1} << GDR_PAGE_SET_BITS];
extern Sets sets;
// For callers that may not use the table: they need no extra branch.
extern const Sets no_sets;

// Whether the page of this address is known to be ordinary host memory. Any thread.
[[gnu::always_inline]] inline bool contains(uintptr_t address)
{
    const uintptr_t page = gdr_page_of(address);
    return sets[gdr_page_set_of(page)].has(page);
}

// Remembers the page of an address that CUDA does not know, if the CPU can read it: addresses that
// CUDA has freed but keeps reserved can be allocated again without any event. The caller keeps the
// page mapped until this returns. Costs one system call. Any thread.
void add(uintptr_t address);

// To be called when the range is about to be unmapped or has just been mapped. Any thread, any
// context: takes no lock and allocates nothing.
void forget(uintptr_t start, size_t length);

} // namespace gdr::mem::host_pages
