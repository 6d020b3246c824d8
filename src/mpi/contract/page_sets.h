// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The layout of the host_pages table, also for C: a set holds four pages. A page is represented by
// its last address, which is never 0.
#pragma once

#include <stdint.h>

// The smallest page size there is; a larger page counts as several.
enum { GDR_PAGE_SHIFT = 12 };
// 32 KiB in all; unmapping a large range walks through the whole table.
enum { GDR_PAGE_SET_BITS = 10, GDR_PAGE_WAYS = 4 };

static inline uintptr_t gdr_page_of(uintptr_t address)
{
    return address | (((uintptr_t)1 << GDR_PAGE_SHIFT) - 1);
}

// Hashes the 32 bits above the page offset. The factor is 2^32 / golden ratio, less 2^32, so that
// it fits an immediate operand of the multiplication.
static inline uintptr_t gdr_page_set_of(uintptr_t page)
{
    return page * (uintptr_t)(int64_t)-0x61c88647 >> (32 + GDR_PAGE_SHIFT - GDR_PAGE_SET_BITS) &
           (((uintptr_t)1 << GDR_PAGE_SET_BITS) - 1);
}
