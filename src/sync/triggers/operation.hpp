// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an application has asked for: an operation, or a stream's wait for some. The application's
// thread takes both from a pool and hands them to the engine. They go back when nobody needs them.
#pragma once

#include "sync/triggers/arguments.hpp"
#include "sync/triggers/stream.hpp"
#include "sync/ucx-gdr/ugdr.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace gdr::sync {

class Engine;
struct Node;
class Served;
struct Operation;
struct Wait;
using HeldWait = std::unique_ptr<Wait, LetGo>;

// A message to the engine.
struct Command {
    enum class Kind : uint8_t {
        start,
        cancel,
        finished,
        wait,
        wait_closed,
        node,
        node_ended,
        serve,
        leave
    };

    Command* next = nullptr;
    Kind kind{};
    Operation* operation = nullptr; // start, cancel, finished
    Wait* waiting = nullptr;        // wait, wait_closed
    Node* node = nullptr;           // node, node_ended
    Served* served = nullptr;       // serve, leave
};

// The state of an operation. The thread that changes it from waiting or from started decides what
// happens to the operation.
enum class Phase : uint8_t {
    waiting,   // for its condition
    cancelled, // before its condition held
    started,   // UCP has it, or a function of the application runs
    finished,  // UCP is done with it
    abandoned  // UCP has it, and nobody waits for that any more
};

struct Operation {
    Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    Operation* next = nullptr; // in the pool

    // What the application asked for.
    Arguments arguments;
    ucp_request_param_t param{}; // as UCP gets it, with our callback
    decltype(ucp_request_param_t::cb) user_callback{};
    void* user_data = nullptr;

    Stream* stream = nullptr; // of its condition; nullptr if there is none
    uint64_t point = 0;
    Wait* joins = nullptr; // an open wait, which is over after this operation
    Node* node = nullptr;  // held; the operation runs once in each of its rounds

    // For the engine's thread alone.
    Engine* engine = nullptr;
    void* ucp_request = nullptr;
    Operation* next_armed = nullptr;
    Operation* next_live = nullptr;
    Operation* previous_live = nullptr;
    Operation* next_call = nullptr;
    std::vector<Wait*> waits; // keeps its room from one use to the next

    // The same, for an operation of a node.
    std::vector<Node*> awaited_by; // nodes that wait for it
    uint64_t runs = 0;             // that are over
    bool under_way = false;
    bool leaving = false; // retires when this run is over
    bool retired = false; // does not run any more

    // For all threads.
    std::atomic<Phase> phase{Phase::waiting};
    std::atomic<bool> cancelling{false};
    std::atomic<int> status{UCS_OK};
    mutable std::atomic<bool> awaited{false}; // a thread sleeps until the status is there
    ucs_status_t ucp_status = UCS_OK;         // written before the command below is pushed
    Command start_command, cancel_command, finished_command;

    // The arguments, if it is of this kind.
    template <typename Kind>
    Kind* as()
    {
        return std::get_if<Kind>(&arguments);
    }

    void tell(ucs_status_t value)
    {
        status.store(value);
        wake();
    }
    // A notification that nobody waits for may be a system call all the same, where a thread
    // sleeps on another word.
    void wake()
    {
        if (awaited.load()) {
            status.notify_all();
        }
    }
    bool complete() const { return status.load(std::memory_order_acquire) != UCS_INPROGRESS; }

    // The application's handle, the engine, waits and commands under way hold it.
    void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
    void let_go();

    // From the pool. The caller and the engine hold it once each.
    static Operation* take(const Arguments& arguments);

  private:
    std::atomic<unsigned> holds_{0};
};

struct Wait {
    Wait() = default;
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    Wait* next = nullptr; // in the pool, and in its stream
    HeldStream stream{};
    uint64_t number = 0;                // of the stream's waits, once CUDA has been told
    bool all = false;                   // waits for all that the stream has, instead of these:
    std::vector<Operation*> operations; // held
    bool open = false;                  // operations can still be attached to its condition
    Engine* engine = nullptr;           // of an open one; exists until it is over
    size_t remaining = 0;               // operations that are not complete; being open counts as
                                        // one
    Command command, closed_command;

    std::atomic<bool> over{false}; // a later close() must not touch the engine

    // The condition of an open wait calls it once and lets go: it attaches nothing more.
    void close();

    // The engine and, for an open one, its condition hold it.
    void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
    void let_go();

    // From the pool, held by the caller, with room for so many operations.
    static HeldWait take(Stream& stream, size_t operations);

  private:
    std::atomic<unsigned> holds_{0};
};

struct Close {
    void operator()(Wait* wait) const { wait->close(); }
};
using OpenWait = std::unique_ptr<Wait, Close>;

} // namespace gdr::sync
