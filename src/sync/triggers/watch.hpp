// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the engine looks at all the time: the words that GPUs write, in one array, so that a stream
// or node that has not triggered costs the load of its word and nothing else.
#pragma once

#include <atomic>
#include <cstdint>

namespace gdr::sync {

struct Node;
struct Stream;

// A node that waits for its trigger. It has triggered when the word differs from `idle`.
struct WatchedNode {
    const std::atomic<uint32_t>* word;
    uint32_t idle;
    Node* node;

    bool triggered() const { return word->load(std::memory_order_acquire) != idle; }
};

// A stream with armed operations; `point` is that of the first.
struct WatchedStream {
    const std::atomic<uint64_t>* reached;
    uint64_t point;
    Stream* stream;

    bool triggered() const { return reached->load(std::memory_order_acquire) >= point; }
};

} // namespace gdr::sync
