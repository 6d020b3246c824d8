// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process-wide record of address ranges that were unmapped. Written inside munmap and free, so
// without locks or allocation; read by registration caches and others, each at its own pace.
//
// What readers rely on: an append() that happened before a read() is heeded by it, whatever other
// threads are amid. A range is appended before it is unmapped, so one whose append() is not over is
// still mapped, and what is known of it still true.
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

    // Rings when much was unmapped: for a reader that looks for others, whatever they do.
    Alarm& alarm() { return alarm_; }

    // How many ranges were ever appended, or are being. One load. As long as it is what read()
    // returned there is nothing to read.
    uint64_t end() const { return end_.load(std::memory_order_acquire); }

    // Calls forget with each range appended since position, or with all there is if some were
    // overwritten. Returns the position to read on from: a range that another thread is appending
    // holds it back, and those behind that are told again.
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
        if (lost)
            forget(Range{0, UINTPTR_MAX});
        return reached;
    }

  private:
    static constexpr uint64_t kCapacity = 16384;

    // What rings the alarm: so many bytes unmapped, or a quarter of the ring written.
    static constexpr uint64_t kAlarm = 1 << 20;
    static constexpr uint64_t kAlarmPerRange = kAlarm / (kCapacity / 4);

    // Either word holds, besides a page, in which turn around the ring it was written, and is never
    // replaced by that of an earlier turn: a thread that was stopped amid an append() for so long
    // that the ring went round spoils nothing.
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
