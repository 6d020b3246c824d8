// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A pool of objects that are reused: in the steady state nothing is allocated. A process has one
// pool for each type. A pool never frees memory; it holds as many objects as were in use at once.
#pragma once

#include "sync/triggers/handover.hpp"

#include <memory>
#include <mutex>

namespace gdr::sync {

template <typename Node>
class Pool {
  public:
    static Pool& instance()
    {
        static auto& instance = *new Pool; // callbacks may come while the process ends
        return instance;
    }

    // Any thread. Threads that take share a lock.
    Node* take()
    {
        const std::lock_guard guard(lock_);
        if (spare_ == nullptr) {
            spare_ = returned_.take();
        }
        if (spare_ == nullptr) {
            grow();
        }
        Node* node = spare_;
        spare_ = node->next;
        return node;
    }

    // Any thread, without a lock.
    void give_back(Node* node) { returned_.push(node); }

  private:
    void grow()
    {
        constexpr size_t kNodes = 64;
        auto* nodes = new Node[kNodes];
        for (size_t i = 0; i < kNodes; ++i) {
            nodes[i].next = spare_;
            spare_ = &nodes[i];
        }
    }

    std::mutex lock_;
    Node* spare_ = nullptr;
    Handover<Node> returned_;
};

} // namespace gdr::sync
