// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process-wide record of address ranges that were unmapped. Written inside munmap and free, so
// without locks or allocation; read by registration caches, each at its own pace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gdr::mem {

class UnmapLog {
  public:
    struct Range {
        uintptr_t start;
        size_t length;
    };

    static UnmapLog& instance();

    // Any thread, any context.
    void append(uintptr_t start, size_t length);

    // How many ranges were ever appended. One load.
    uint64_t end() const { return end_.load(std::memory_order_acquire); }

    // Reads the ranges from *position on, one a call, and moves it. none: nothing more for now.
    // lost: older ranges were overwritten; *position is at the end, and everything must be taken as
    // unmapped.
    enum class Result { range, none, lost };
    Result read(uint64_t* position, Range* range) const;

  private:
    static constexpr uint64_t kCapacity = 1024;

    struct Entry {
        std::atomic<uint64_t> number{0}; // of the range + 1; 0: never written
        std::atomic<uintptr_t> start{0};
        std::atomic<size_t> length{0};
    };

    std::atomic<uint64_t> end_{0};
    Entry entries_[kCapacity];
};

} // namespace gdr::mem
