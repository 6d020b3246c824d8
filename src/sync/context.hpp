// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A context as the application has it: its streams, its engine, and who makes that progress.
#pragma once

#include "sync/engine.hpp"
#include "sync/graph.hpp"
#include "sync/proxy.hpp"
#include "sync/stream.hpp"

#include <memory>
#include <mutex>

namespace gdr::sync {

// Where a condition is: a point of a stream, or a node of a graph.
struct Recorded {
    CUstream handle = nullptr;
    uint64_t thread = 0; // whose it is
    HeldStream stream{};
    uint64_t point = 0;
    OpenWait wait{}; // ends behind the operations
    HeldNode node{}; // instead
    GraphNodes nodes{};
};

// A point of a stream, a node of a graph, or what kernels trigger.
struct Condition {
    ugdr_condition_category_t category{};
    bool waits = false;            // for its operations: of a stream
    std::vector<Node*> triggers{}; // held; kernels'
    ugdr_dev_condition_t device{}; // theirs, too

    // One thread records it at a time, also while it waits for room in the stream: a wait that the
    // next one has not ended yet could be why there is none. Taken before all other locks.
    std::mutex recording;
    // A stream's is recorded again while other threads attach to it. Held for no call of CUDA.
    std::mutex lock;
    Recorded recorded;

    Condition() = default;
    Condition(const Condition&) = delete;
    Condition& operator=(const Condition&) = delete;
    ~Condition();
};

class Context {
  public:
    // Throws Refusal, std::system_error.
    Context(const Ucx& ucx, const ugdr_context_params_t& params);
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Ucx& ucx() const { return ucx_; }
    Engine& engine() { return *engine_; }

    // Ends the thread, for good. False: it did not come to its end within the time.
    bool stop(std::chrono::milliseconds limit);

    // Ends everything that is under way, after stop(). Whether UCP still has operations: then the
    // context must not be destroyed.
    bool abandon() { return engine_->abandon(); }

    // Destroys the own worker, after stop().
    void close_worker();

    // ---- for the functions of the API; throw Refusal and cuda::Error

    void record(Condition& condition, CUstream handle);
    // split: a node that triggers and one that waits.
    void add(Condition& condition, CUgraph graph, std::vector<CUgraphNode> dependencies,
             bool split);
    // For kernels of the current context.
    void add_triggers(Condition& condition, unsigned count, unsigned arrivals);
    void release_stream(CUstream handle);

    // Records the operation, which the engine holds from then on. wait: the condition's stream
    // waits here.
    // index: which of the condition's triggers.
    void submit(Operation& operation, Condition* condition, unsigned index, bool wait);

    void wait(CUstream handle, const ugdr_request_h* requests, size_t count);
    void wait_for_all(CUstream handle);

    uint64_t crowded_waits() const { return crowded_waits_.load(std::memory_order_relaxed); }
    const ucp_address_t* address() const { return address_; }
    size_t address_length() const { return address_length_; }

  private:
    Engine::Settings choose(const ugdr_context_params_t& params);
    ucp_worker_h create_worker(ucp_context_h ucp_context, bool by_caller);
    void require_thread_mode(ucp_worker_h worker, bool by_caller, bool lock);
    // Throws Refusal where it would wait, and nothing can.
    HeldNode make_node(const cuda::Driver& driver, const Place& place, bool triggers, bool waits);
    GraphNodes add_node(const cuda::Driver& driver, const Place& place, Node& node, bool split);
    void add_wait(const cuda::Driver& driver, const Place& place, const ugdr_request_h* requests,
                  size_t count, bool all);
    void submit_to(Node& node, Operation& operation, bool wait);
    void take_back(Operation& operation);
    void warn_of_a_crowd(const Stream& stream);
    // With the stream's lock.
    void enqueue(HeldWait wait, CUstream handle, const ugdr_request_h* requests, size_t count);
    void begin(HeldWait wait, uint64_t number);

    const Ucx ucx_;
    const unsigned connections_; // hardware queues of a GPU
    ucp_worker_h own_worker_ = nullptr;
    ucp_address_t* address_ = nullptr;
    size_t address_length_ = 0;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Proxy> proxy_;

    // The engine takes none of the locks: they are between the threads of the application. Those
    // of streams have one each (Stream::enqueueing), and the table has its own.
    Streams streams_;
    std::atomic<uint64_t> crowded_waits_{0};
};

} // namespace gdr::sync

// The handles of the API.
struct ugdr_context : gdr::sync::Context {
    using Context::Context;
};
struct ugdr_condition : gdr::sync::Condition {
    ugdr_context* context;
};
