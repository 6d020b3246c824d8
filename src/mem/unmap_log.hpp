// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process-wide log of unmapped address ranges. munmap and free write to it, so it takes no locks
// and allocates nothing. Registration caches and other readers each read it at their own pace.
//
// Readers rely on this: a read() sees every append() that happened before it, whatever other
// threads are doing. A range is appended before it is unmapped, so a range whose append() has not
// returned is still mapped, and what is known about it is still true.
#pragma once

#include "mem/alarm.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gdr::mem {

class UnmapLog {
  public:
    struct Range { // whole pages
        uintptr_t start;
        uintptr_t end;
    };

    static UnmapLog& instance();

    // Any thread, any context.
    void append(uintptr_t start, size_t length);

    // Rings when much was unmapped, for a reader on another thread.
    Alarm& alarm() { return alarm_; }

    // How many ranges were appended or are being appended. Costs one load. While it equals the last
    // result of read(), there is nothing to read.
    uint64_t end() const { return end_.load(std::memory_order_acquire); }

    // Calls forget with each range appended since position, or with the whole address space if some
    // entries were overwritten. Returns the position to continue from: it stays at a range that
    // another thread is appending, and the ranges after that are reported again.
    template <class Forget>
    uint64_t read(uint64_t position, Forget&& forget) const
    {
        const uint64_t end = this->end();
        const uint64_t oldest = end - std::min(end, kCapacity);
        bool lost = position < oldest;
        uint64_t reached = end;
        for (uint64_t number = std::max(position, oldest); number < end; ++number) {
            Range range;
            switch (look_up(number, &range)) {
            case State::written:
                forget(range);
                break;
            case State::being_written:
                reached = std::min(reached, number);
                break;
            case State::overwritten:
                lost = true;
                break;
            }
        }
        if (lost) {
            forget(Range{0, UINTPTR_MAX});
        }
        return reached;
    }

  private:
    static constexpr uint64_t kCapacity = 16384;

    // The alarm rings after so many unmapped bytes, or when a quarter of the ring was written.
    static constexpr uint64_t kAlarm = 1 << 20;
    static constexpr uint64_t kAlarmPerRange = kAlarm / (kCapacity / 4);

    // Each word holds a page and the turn around the ring in which it was written. A word is never
    // replaced by one of an earlier turn: a thread that was stopped within append() while the ring
    // went round spoils nothing.
    struct Entry {
        std::atomic<uint64_t> first{0}; // page
        std::atomic<uint64_t> last{0};  // page + 1
    };

    enum class State { written, being_written, overwritten };
    State look_up(uint64_t number, Range* range) const;

    std::atomic<uint64_t> end_{0};
    Alarm alarm_{kAlarm};
    Entry entries_[kCapacity];
};

} // namespace gdr::mem
