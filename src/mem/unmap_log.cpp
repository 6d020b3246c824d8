// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A ring of numbered entries: a reader knows by the number whether an entry is the one it wants, is
// not written yet, or was overwritten.
#include "mem/unmap_log.hpp"

namespace gdr::mem {

UnmapLog& UnmapLog::instance()
{
    static UnmapLog log;
    return log;
}

void UnmapLog::append(uintptr_t start, size_t length)
{
    uint64_t number = end_.fetch_add(1, std::memory_order_acq_rel);
    Entry& entry = entries_[number % kCapacity];
    entry.number.store(0, std::memory_order_relaxed);
    // Who reads one of these reads the 0, or a later number, afterwards.
    entry.start.store(start, std::memory_order_release);
    entry.length.store(length, std::memory_order_release);
    entry.number.store(number + 1, std::memory_order_release);
}

UnmapLog::Result UnmapLog::read(uint64_t* position, Range* range) const
{
    uint64_t end = end_.load(std::memory_order_acquire);
    if (*position == end) {
        return Result::none;
    }
    if (end - *position <= kCapacity) {
        const Entry& entry = entries_[*position % kCapacity];
        uint64_t before = entry.number.load(std::memory_order_acquire);
        *range = {entry.start.load(std::memory_order_acquire),
                  entry.length.load(std::memory_order_acquire)};
        uint64_t after = entry.number.load(std::memory_order_relaxed);
        if (before == *position + 1 && after == before) {
            ++*position;
            return Result::range;
        }
        if (before <= *position && after <= *position) {
            return Result::none; // its writer has not unmapped yet
        }
    }
    *position = end;
    return Result::lost;
}

} // namespace gdr::mem
