// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A place in a graph that triggers operations at every launch, or waits for some, or both; or what
// a kernel triggers.
#pragma once

#include "sync/operation.hpp"
#include "sync/watch.hpp"
#include "sync/words.hpp"

#include <memory>
#include <vector>

namespace gdr::sync {

struct Node;
using HeldNode = std::unique_ptr<Node, LetGo>;

struct Node {
    // Throws cuda::Error. The context is current.
    Node(const cuda::Driver& driver, CUcontext context);
    // One of several whose gates are somebody else's, who holds them as long as this is held.
    Node(const cuda::Driver& driver, CUcontext context, const Mapped<Gates>& gates,
         std::shared_ptr<const void> owner);
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    const CUcontext context;
    const Abilities abilities;
    Mapped<Gates> gates;

    // What it is; of the application's threads until the engine has it.
    bool triggers = false;           // its operations
    bool waits = false;              // is passed when its operations are complete
    bool by_host_functions = false;  // triggers, without gates
    bool one_gate = false;           // its operations are over when the trigger's is open again
    bool waits_for_all = false;      // that its stream has triggered in this capture so far
    unsigned long long capture = 0;  // in which it came to be; 0: none
    CUstream handle = nullptr;       // the stream that was captured
    uint64_t thread = 0;             // whose it is
    std::vector<Operation*> awaited; // held; by a node that does not trigger them

    // The engine's.
    std::vector<Operation*> operations; // that it triggers, in their order, or waits for
    uint64_t number = 0;                // in the order of their coming
    size_t remaining = 0;               // of these, in this round
    uint64_t rounds = 0;                // that have begun, or, without triggering, are over
    ucs_status_t status = UCS_OK;       // of an operation that failed in the last round
    bool running = false;
    bool ended = false;   // nobody triggers it any more
    bool retired = false; // its operations are over for good

    std::atomic<uint32_t> calls{0}; // of the host function

    Command start_command{}, ended_command{};

    // Where its trigger is seen, from the rounds on that have begun.
    WatchedNode watch()
    {
        if (by_host_functions)
            return {&calls, static_cast<uint32_t>(rounds), this};
        return {&gates.host->trigger.open, Gate::passable(status), this};
    }
    bool triggered() { return watch().triggered(); }

    // From now on nobody triggers it nor waits at it: called once, by who holds it for that, and
    // lets go. Any thread, one of CUDA's included.
    void end();
    // The engine that is told of that; nullptr: none any more.
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

    std::shared_ptr<const void> owner_; // of the gates, where they are not its own
    Engine* engine_ = nullptr;          // under a lock of its own
    std::atomic<unsigned> holds_{1};
};

} // namespace gdr::sync
