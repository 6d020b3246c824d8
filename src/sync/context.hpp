// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The application's context: its streams, its engine, and the thread that makes progress.
#pragma once

#include "sync/device.hpp"
#include "sync/network/network.hpp"
#include "sync/transfers/transfers.hpp"
#include "sync/triggers/engine.hpp"
#include "sync/triggers/graph.hpp"
#include "sync/triggers/proxy.hpp"
#include "sync/triggers/stream.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>

struct ugdr_device;
struct ugdr_transfer;

namespace gdr::sync {

// Where a condition was recorded: a point of a stream, or a node of a graph.
struct Recorded {
    CUstream handle = nullptr;
    uint64_t thread = 0; // of a per-thread stream (thread_of())
    HeldStream stream{};
    uint64_t point = 0;
    OpenWait wait{}; // is over after the operations
    HeldNode node{}; // a node of a graph; then stream is empty
    GraphNodes nodes{};
};

// A point of a stream, a node of a graph, or the triggers of kernels.
struct Condition {
    ugdr_condition_category_t category{};
    bool waits = false;            // a stream's condition waits for its operations
    std::vector<Node*> triggers{}; // of a kernel's condition; held
    ugdr_dev_condition_t device{}; // of a kernel's condition

    // One thread at a time records the condition, even while it waits for room in the stream: the
    // previous wait, which recording closes, may be the reason why there is none. Taken before all
    // other locks.
    std::mutex recording;
    // Protects `recorded`: a stream's condition can be recorded again while other threads attach
    // operations. No CUDA call is made under it.
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
    ~Context();

    const Ucx& ucx() const { return ucx_; }
    Engine& engine() { return *engine_; }
    Network& network() { return *network_; }
    Transfers& transfers() { return *transfers_; }

    // Ends the threads, for good. Returns false if one did not end in time.
    bool stop(std::chrono::milliseconds limit);

    // Ends everything that is under way, after stop(). Returns whether UCP still has operations;
    // then the context must not be destroyed.
    bool abandon();

    // Destroys the library's own worker, after stop().
    void close_worker();

    // ---- for the functions of the API; throw Refusal and cuda::Error

    void record(Condition& condition, CUstream handle);
    // split: adds two nodes to the graph, one that triggers and one that waits.
    void add(Condition& condition, CUgraph graph, std::vector<CUgraphNode> dependencies,
             bool split);
    // Adds triggers for kernels of the current context.
    void add_triggers(Condition& condition, unsigned count, unsigned arrivals);
    void release_stream(CUstream handle);

    // Of the current CUDA context; one at a time.
    ugdr_device* open_device(const Device::Settings& settings);
    void close_device(ugdr_device& device);
    bool has_device();

    // A prepared transfer, as the application has it.
    ugdr_transfer* add(Prepared* prepared, unsigned calls);
    void remove(ugdr_transfer& transfer);

    // Hands the operation to the engine, which holds it from then on. wait: the condition's stream
    // waits here. index: which of the condition's triggers starts it.
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
    // Throws Refusal if the node is to wait and the GPU's streams or graphs cannot.
    HeldNode make_node(const cuda::Driver& driver, const Place& place, bool triggers, bool waits);
    GraphNodes add_node(const cuda::Driver& driver, const Place& place, Node& node, bool split);
    void add_wait(const cuda::Driver& driver, const Place& place, const ugdr_request_h* requests,
                  size_t count, bool all);
    void submit_to(Node& node, Operation& operation, bool wait);
    void take_back(Operation& operation);
    void warn_of_a_crowd(const Stream& stream);
    // The caller holds the stream's lock.
    void enqueue(HeldWait wait, CUstream handle, const ugdr_request_h* requests, size_t count);
    void begin(HeldWait wait, uint64_t number);

    const Ucx ucx_;
    const unsigned connections_; // hardware queues of a GPU
    ucp_worker_h own_worker_ = nullptr;
    ucp_address_t* address_ = nullptr;
    size_t address_length_ = 0;
    const ugdr_idle_t idle_;
    const std::optional<ucs_cpu_set_t> cores_; // of the threads
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Proxy<Engine>> proxy_;
    std::unique_ptr<Network> network_;
    std::unique_ptr<Transfers> transfers_;
    std::mutex device_lock_;
    std::unique_ptr<ugdr_device> device_;

    std::mutex handles_lock_;
    std::map<ugdr_transfer*, std::unique_ptr<ugdr_transfer>> handles_;

    // The engine takes none of the locks; they order threads of the application. Each stream has
    // one (Stream::enqueueing), and the table has one.
    Streams streams_;
    std::atomic<uint64_t> crowded_waits_{0};
};

} // namespace gdr::sync

// The handles of the API.
struct ugdr_context : gdr::sync::Context {
    using Context::Context;
};
struct ugdr_device : gdr::sync::Device {
    ugdr_device(ugdr_context* of, auto&&... arguments) : Device(arguments...), context(of) {}

    ugdr_context* const context;
};
struct ugdr_condition : gdr::sync::Condition {
    ugdr_context* context;
};
