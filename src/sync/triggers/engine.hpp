// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The engine: sees streams reach their points, gives operations to UCP, collects completions and
// releases streams. One thread at a time makes its progress; others only hand it commands.
#pragma once

#include "sync/rings/doorbell.hpp"
#include "sync/rings/served.hpp"
#include "sync/triggers/handover.hpp"
#include "sync/triggers/operation.hpp"
#include "sync/triggers/pool.hpp"
#include "sync/triggers/watch.hpp"
#include "sync/ucx/ucx.hpp"

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace gdr::sync {

class Engine {
  public:
    struct Settings {
        ucp_worker_h worker = nullptr; // may be missing
        bool own = false; // the library's own worker, progressed even while nothing is under way
        bool by_caller = false;        // the application calls progress()
        ugdr_lock_cb_t lock = nullptr; // around each use of the worker; may be missing
        ugdr_lock_cb_t unlock = nullptr;
        void* lock_arg = nullptr;
        ugdr_error_cb_t error = nullptr;
        void* error_arg = nullptr;
    };

    Engine(const Ucx& ucx, const Settings& settings)
        : doorbell(*Pool<Doorbell>::instance().take()), ucx_(ucx), settings_(settings)
    {
    }
    ~Engine() { Pool<Doorbell>::instance().give_back(&doorbell); }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // ---- any thread

    void submit(Command* command)
    {
        Doorbell& bell = doorbell; // whoever handles the command may destroy this engine
        inbox_.push(command);
        bell.ring();
    }
    // The command of a new operation or wait, which counts until it is over.
    void submit_new(Command* command)
    {
        unfinished_.fetch_add(1, std::memory_order_relaxed);
        submit(command);
    }
    // UCS_ERR_BUSY: the operation is under way and cannot be cancelled.
    ucs_status_t cancel_soon(Operation& operation);
    // Returns when it is complete; makes progress itself if no thread of the library does.
    void wait_for(const Operation& operation);
    // Calls it in the engine's thread, and returns when it has returned, or thrown.
    void call(const std::function<void()>& body);
    // Operations that are not complete and waits that are not over.
    uint64_t unfinished() const { return unfinished_.load(std::memory_order_acquire); }
    ugdr_context_counters_t counters() const;
    ucs_status_t status() const { return static_cast<ucs_status_t>(status_.load()); }
    const Ucx& ucx() const { return ucx_; }
    const Settings& settings() const { return settings_; }
    // Tells of something that failed: the first is the context's status, and logged.
    void report(ucs_status_t status, const std::string& failure);
    // Puts our callbacks into the parameters for UCP; the application's have been taken out.
    void prepare(Operation& operation);

    // From a pool, since submit() rings it last: a stale ring at worst wakes another engine for
    // nothing.
    Doorbell& doorbell;

    // ---- the one thread

    // Looks at everything once, triggers first. Returns the number of events.
    unsigned progress();

    // Whether operations wait for their conditions or for their completion.
    bool under_way() const
    {
        return watched_.size() + outstanding_ > 0 || calls_ != nullptr ||
               any_served(&Served::under_way);
    }
    // Whether a GPU may trigger something at any time.
    bool armed() const { return !triggers_.empty() || any_served(&Served::armed); }
    // Whether others may need the progress of a worker of our own.
    bool serves_others() const { return settings_.own; }
    bool has_news() const { return !inbox_.empty() || any_served(&Served::has_news); }

    // Ends everything at once. Returns whether UCP still has operations; then the engine must stay.
    bool abandon();

  private:
    struct Count {
        std::atomic<uint64_t> value{0};
        // There is one writer. A reader that sees the count also sees what the writer did before.
        void operator++()
        {
            value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        }
        operator uint64_t() const { return value.load(std::memory_order_acquire); }
    };

    bool any_served(bool (Served::*is)() const) const
    {
        for (const Served* one = served_; one != nullptr; one = one->next) {
            if ((one->*is)()) {
                return true;
            }
        }
        return false;
    }
    void leave(Served& served);

    bool has_work();
    unsigned handle_commands();
    unsigned look_at_streams();
    unsigned test_calls();
    void release_streams(bool may_flush);

    void arm(Operation& operation);
    WatchedStream& watch_of(Stream& stream);
    void start(Operation& operation);
    ucs_status_ptr_t post(Operation& operation);
    void finish(Operation& operation, ucs_status_t status);
    void tell(Operation& operation, ucs_status_t status);
    void fail(const Operation& operation, ucs_status_t status);
    void begin(Wait& wait);
    static void await(Wait& wait, Operation& operation);
    void complete_one(Wait& wait);
    void cancel(Operation& operation);
    void link(Operation& operation);
    void unlink(Operation& operation);
    void flush(CUcontext context);
    bool abandon(Operation& operation);

    // ---- rounds (rounds.cpp)
    void take(Node& node);
    void await(Node& node, Operation& operation);
    void attach(Operation& operation);
    bool find_rounds();
    unsigned begin_rounds();
    static bool comes_before(const Node& one, const Node& other);
    void end_run(Operation& operation, ucs_status_t status);
    void end_of_one(Node& node);
    void end_round(Node& node);
    void open_gates(bool may_flush);
    void retire(Operation& operation);
    void forget(Node& waiter, Operation& operation);
    void cancel_for_good(Operation& operation);
    void end(Node& node);
    void retire(Node& node);
    bool abandon_nodes();

    Stream& home_of(Operation& operation);

    static void finished(Operation& operation, void* request, ucs_status_t status);
    static void sent(void* request, ucs_status_t status, void* operation);
    static void received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                         void* operation);

    const Ucx ucx_;
    const Settings settings_;

    Handover<Command> inbox_;
    std::vector<WatchedStream> watched_; // in order: a stream may depend on another
    std::vector<WatchedNode> looks_;     // at nodes without a round, in no order
    std::vector<Wait*> open_waits_;      // in no order
    std::vector<Stream*> freed_;         // with a wait that is over and not yet released
    Stream nowhere_;                     // of operations without a condition
    std::vector<Stream*> busy_;          // with operations that are not complete
    Operation* calls_ = nullptr;         // functions of the application under way
    size_t outstanding_ = 0;             // operations that UCP has
    uint64_t nodes_ = 0;                 // that there have been
    std::vector<Node*> triggers_;        // nodes that trigger operations, in order of creation
    std::vector<Node*> waiters_;         // other nodes
    std::vector<Node*> rounds_;          // triggered, not begun
    std::vector<Node*> opened_;          // whose gate is to be opened
    Served* served_ = nullptr;           // a list

    std::atomic<uint64_t> unfinished_{0};
    Count triggered_, posted_, completed_, failed_, flushes_;
    std::atomic<int> status_{UCS_OK};
};

} // namespace gdr::sync
