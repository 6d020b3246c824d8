// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Hands objects from any thread to one thread, without locks and allocations.
#pragma once

#include <atomic>

namespace gdr::sync {

// Links objects through Node::next, which belongs to the list from push() until take().
template <typename Node>
class Handover {
  public:
    // Any thread. The thread that takes the node sees what the caller wrote before.
    void push(Node* node)
    {
        Node* first = last_.load(std::memory_order_relaxed);
        do {
            node->next = first;
        } while (!last_.compare_exchange_weak(first, node, std::memory_order_acq_rel,
                                              std::memory_order_relaxed));
    }

    bool empty() const { return last_.load(std::memory_order_acquire) == nullptr; }

    // All that was pushed, linked in the order of pushing; nullptr if there is nothing.
    Node* take()
    {
        if (empty()) {
            return nullptr;
        }
        Node* taken = last_.exchange(nullptr, std::memory_order_acq_rel);
        Node* ordered = nullptr;
        while (taken != nullptr) {
            Node* next = taken->next;
            taken->next = ordered;
            ordered = taken;
            taken = next;
        }
        return ordered;
    }

  private:
    std::atomic<Node*> last_{nullptr};
};

} // namespace gdr::sync
