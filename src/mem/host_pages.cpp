// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A direct-mapped table for each thread, brought up to date from the log before it is read.
#include "mem/host_pages.hpp"

#include "mem/unmap_log.hpp"

#include <array>

#include <sys/uio.h>
#include <unistd.h>

namespace gdr::mem::host_pages {
namespace {

constexpr unsigned kPageShift = 12; // of the smallest pages there are; larger ones are several
constexpr size_t kSlots = 512;      // 2 MiB of buffers without a collision

struct Table {
    uint64_t position = 0; // in the log
    std::array<uintptr_t, kSlots> pages{};

    void forget(UnmapLog::Range range)
    {
        uintptr_t first = range.start >> kPageShift;
        uintptr_t last = (range.start + range.length - 1) >> kPageShift;
        for (uintptr_t& page : pages) {
            if (page >= first && page <= last)
                page = 0;
        }
    }

    void update()
    {
        const UnmapLog& log = UnmapLog::instance();
        if (position == log.end())
            return;
        UnmapLog::Range range;
        while (true) {
            switch (log.read(&position, &range)) {
            case UnmapLog::Result::range:
                forget(range);
                break;
            case UnmapLog::Result::lost:
                pages.fill(0);
                break;
            case UnmapLog::Result::none:
                return;
            }
        }
    }
};

thread_local Table table;

uintptr_t& slot(uintptr_t page)
{
    return table.pages[page % kSlots];
}

bool readable(uintptr_t address)
{
    char byte;
    iovec target = {&byte, 1};
    iovec source = {reinterpret_cast<void*>(address), 1};
    return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1;
}

} // namespace

bool contains(uintptr_t address)
{
    table.update();
    uintptr_t page = address >> kPageShift;
    return page != 0 && slot(page) == page;
}

void add(uintptr_t address)
{
    uintptr_t page = address >> kPageShift;
    if (readable(address))
        slot(page) = page;
}

} // namespace gdr::mem::host_pages
