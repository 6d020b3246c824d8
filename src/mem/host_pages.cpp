// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Fills and clears the table. If threads write the same word, it holds the page of one of them or
// none.
#include "mem/host_pages.hpp"

#include <algorithm>
#include <iterator>

#include <sys/uio.h>
#include <unistd.h>

namespace gdr::mem::host_pages {

constinit Sets sets{};
constinit const Sets no_sets{};

namespace {

bool readable(uintptr_t address)
{
    char byte;
    iovec target = {&byte, 1};
    iovec source = {reinterpret_cast<void*>(address), 1};
    return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1;
}

// The entry for a new page; pages in the set keep their entries.
std::atomic<uintptr_t>& place_in(Set& set)
{
    static constinit std::atomic<unsigned> turn{0};
    for (std::atomic<uintptr_t>& known : set.pages) {
        if (known.load(std::memory_order_relaxed) == 0) {
            return known;
        }
    }
    return set.pages[turn.fetch_add(1, std::memory_order_relaxed) % GDR_PAGE_WAYS];
}

void clear(Set& set, uintptr_t first, uintptr_t last)
{
    for (std::atomic<uintptr_t>& known : set.pages) {
        const uintptr_t page = known.load(std::memory_order_relaxed);
        if (page >= first && page <= last) {
            known.store(0, std::memory_order_relaxed);
        }
    }
}

} // namespace

void add(uintptr_t address)
{
    const uintptr_t page = gdr_page_of(address);
    if (!readable(address)) {
        return;
    }
    Set& set = sets[gdr_page_set_of(page)];
    if (!set.has(page)) {
        place_in(set).store(page, std::memory_order_relaxed);
    }
}

void forget(uintptr_t start, size_t length)
{
    constexpr uintptr_t kPage = uintptr_t{1} << GDR_PAGE_SHIFT;
    if (length == 0) {
        return;
    }
    const uintptr_t first = gdr_page_of(start);
    const uintptr_t last =
        gdr_page_of(length <= UINTPTR_MAX - start ? start + length - 1 : UINTPTR_MAX);
    const uintptr_t more = (last - first) / kPage;
    if (more + 1 < std::size(sets)) {
        for (uintptr_t i = 0; i <= more; ++i) {
            clear(sets[gdr_page_set_of(first + i * kPage)], first + i * kPage, first + i * kPage);
        }
    } else {
        for (Set& set : sets) {
            clear(set, first, last);
        }
    }
}

} // namespace gdr::mem::host_pages
