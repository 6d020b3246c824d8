// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of a peer that the other side writes: letters, and how far receivers of prepared transfers
// are. The other side has the same, and offsets are the same on both.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gdr::sync {

struct alignas(4096) Mailbox {
    static constexpr size_t kSlots = 8, kStarted = 1024;

    // A letter has a slot, the next one the next; its number, from 1 on, comes after its bytes.
    struct Slot {
        std::array<uint8_t, 4080> bytes;
        uint64_t length;
        std::atomic<uint64_t> number;
    };

    std::array<Slot, kSlots> in;
    std::array<Slot, kSlots> out; // on their way to the other side
    // The other side writes, too: how many of our letters it has taken, and the iterations that its
    // receivers have started.
    alignas(64) std::atomic<uint64_t> taken;
    alignas(64) std::array<std::atomic<uint64_t>, kStarted> started;
};

} // namespace gdr::sync
