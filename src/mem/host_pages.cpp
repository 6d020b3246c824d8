// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A four-way set-associative table for each thread, brought up to date from the log before it is
// read.
#include "mem/host_pages.hpp"

#include "mem/hash.hpp"
#include "mem/unmap_log.hpp"

#include <algorithm>
#include <array>

#include <sys/uio.h>
#include <unistd.h>

namespace gdr::mem::host_pages {
namespace {

constexpr unsigned kPageShift = 12; // of the smallest pages there are; larger ones are several
constexpr unsigned kSetBits = 8;
constexpr unsigned kWays = 4; // 2 MiB of buffers fill half of the table

// Pages whose numbers hash alike, the one added last first.
using Set = std::array<uintptr_t, kWays>;

struct Table {
    uint64_t position = 0; // in the log
    alignas(64) std::array<Set, size_t{1} << kSetBits> sets{};

    Set& set_of(uintptr_t page) { return sets[fibonacci_hash<kSetBits>(page)]; }

    void forget(UnmapLog::Range range)
    {
        const uintptr_t first = range.start >> kPageShift;
        const uintptr_t end = range.end >> kPageShift;
        for (Set& set : sets) {
            for (uintptr_t& page : set) {
                if (page >= first && page < end)
                    page = 0;
            }
        }
    }

    void update()
    {
        const UnmapLog& log = UnmapLog::instance();
        if (position != log.end())
            position = log.read(position, [this](UnmapLog::Range range) { forget(range); });
    }
};

thread_local Table table;

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
    const Set& set = table.set_of(page);
    return page != 0 && std::find(set.begin(), set.end(), page) != set.end();
}

void add(uintptr_t address)
{
    uintptr_t page = address >> kPageShift;
    if (!readable(address))
        return;
    Set& set = table.set_of(page);
    std::copy_backward(set.begin(), set.end() - 1, set.end());
    set.front() = page;
}

} // namespace gdr::mem::host_pages
