// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Where host_pages keeps a page, for C as well: in a set of four words. A page goes by its last
// address, which none has that is 0.
#pragma once

#include <stdint.h>

// Of the smallest pages there are; larger are several.
enum { GDR_PAGE_SHIFT = 12 };
// 32 KiB in all, which the unmapping of a large range walks through.
enum { GDR_PAGE_SET_BITS = 10, GDR_PAGE_WAYS = 4 };

static inline uintptr_t gdr_page_of(uintptr_t address)
{
    return address | (((uintptr_t)1 << GDR_PAGE_SHIFT) - 1);
}

// Of the 32 bits above the lowest ones, which are the same in all pages. The factor is an operand
// of the multiplication: 2^32 / golden ratio, less 2^32.
static inline uintptr_t gdr_page_set_of(uintptr_t page)
{
    return page * (uintptr_t)(int64_t)-0x61c88647 >> (32 + GDR_PAGE_SHIFT - GDR_PAGE_SET_BITS) &
           (((uintptr_t)1 << GDR_PAGE_SET_BITS) - 1);
}
