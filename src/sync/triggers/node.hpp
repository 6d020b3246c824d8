// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A place in a graph that triggers operations at every launch, waits for some, or does both; also
// one trigger of a kernel's condition.
#pragma once

#include "sync/triggers/operation.hpp"
#include "sync/triggers/watch.hpp"
#include "sync/triggers/words.hpp"

#include <memory>
#include <vector>

namespace gdr::sync {

struct Node;
using HeldNode = std::unique_ptr<Node, LetGo>;

struct Node {
    // The context is current. Throws cuda::Error.
    Node(const cuda::Driver& driver, CUcontext context);
    // One of several nodes that share the memory of their gates. The node holds the owner.
    Node(const cuda::Driver& driver, CUcontext context, const Mapped<Gates>& gates,
         std::shared_ptr<const void> owner);
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    const CUcontext context;
    const Abilities abilities;
    Mapped<Gates> gates;

    // What the node is. The application's threads write this before the engine has the node.
    bool triggers = false;           // triggers its operations
    bool waits = false;              // the GPU passes it when its operations are complete
    bool by_host_functions = false;  // a host function triggers; there are no gates
    bool one_gate = false;           // its operations are over when the trigger gate is open again
    bool waits_for_all = false;      // for all that its stream has triggered in this capture so far
    unsigned long long capture = 0;  // the capture that made it; 0: none
    CUstream handle = nullptr;       // the captured stream
    uint64_t thread = 0;             // of a per-thread stream (thread_of())
    std::vector<Operation*> awaited; // held; by a node that does not trigger them

    // For the engine's thread alone.
    std::vector<Operation*> operations; // that it triggers, in their order, or waits for
    uint64_t number = 0;                // in order of creation
    size_t remaining = 0;               // operations of this round that are not complete
    uint64_t rounds = 0;                // that have begun; without triggers, that are over
    ucs_status_t status = UCS_OK;       // of an operation that failed in the last round
    bool running = false;
    bool ended = false;   // nothing triggers it any more
    bool retired = false; // its operations are over for good

    std::atomic<uint32_t> calls{0}; // of the host function

    Command start_command{}, ended_command{};

    // Where its next trigger shows, given the rounds that have begun.
    WatchedNode watch()
    {
        if (by_host_functions) {
            return {&calls, static_cast<uint32_t>(rounds), this};
        }
        return {&gates.host->trigger.open, Gate::passable(status), this};
    }
    bool triggered() { return watch().triggered(); }

    // The graph or condition that holds the node for this calls it once and lets go: from now on
    // nothing triggers the node or waits at it. Any thread, CUDA's included.
    void end();
    // The engine to tell of the end; nullptr: there is none any more.
    void belongs_to(Engine* engine);

    // The graph and its executables, conditions, operations and the engine hold a node. Any thread.
    void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
    HeldNode held()
    {
        hold();
        return HeldNode(this);
    }
    void let_go();

  private:
    ~Node() = default;

    std::shared_ptr<const void> owner_; // of the gates, if they are shared
    Engine* engine_ = nullptr;          // under a lock of its own
    std::atomic<unsigned> holds_{1};
};

} // namespace gdr::sync
