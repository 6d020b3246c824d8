// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the engine looks at all the time: the words that GPUs write, one entry behind the other, so
// that who has not been triggered costs the load of its word and nothing else.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::sync {

struct Node;
struct Stream;

// A node that waits for its trigger: the word says anything but this.
struct WatchedNode {
    const std::atomic<uint32_t>* word;
    uint32_t idle;
    Node* node;

    bool triggered() const { return word->load(std::memory_order_acquire) != idle; }
};

// A stream with armed operations, the first of them at this point.
struct WatchedStream {
    const std::atomic<uint64_t>* reached;
    uint64_t point;
    Stream* stream;

    bool triggered() const { return reached->load(std::memory_order_acquire) >= point; }
};

} // namespace gdr::sync
