// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A rank's part of a communicator: a thread of its own does what was told, one after the other.
#pragma once

#include "emu/softnccl/room.hpp"
#include "mpi/nccl/abi.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace softnccl {

using gdr::nccl::Operation;
using gdr::nccl::Result;
using gdr::nccl::Type;

struct Failure : std::runtime_error {
    Failure(Result of, const std::string& what) : std::runtime_error(what), result(of) {}
    Result result;
};

// One of a group.
struct Order {
    enum class Kind { all_gather, all_reduce, broadcast, receive, reduce, reduce_scatter, send };
    Kind kind;
    const char* from;
    char* to;
    size_t count;
    Type type;
    Operation operation; // of reductions
    int peer;            // or root
};

size_t size_of(Type type);

// SOFTNCCL_FAULT=KIND:RANK[:NUMBER[:MS]]
struct Fault {
    std::string kind;
    int rank = -1, number = 0, ms = 0;
    static Fault from_environment();
};

class Communicator {
  public:
    // In the thread's current context.
    Communicator(const std::string& name, int ranks, int rank);
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    ~Communicator(); // waits for what goes on

    Result state() const { return state_; }

    // The state is in_progress until they are issued on the stream.
    void issue(std::vector<Order> orders, CUstream stream);
    void finalize();
    void abort();

  private:
    struct Work;

    void post(std::function<void()> task);
    void serve(CUcontext context);
    void begin();
    void launch(std::vector<Order> orders, CUstream stream);
    void run(const std::vector<Order>& orders);
    void run(const Order& order);
    void reduce(const Order& order, const char* from, char* to, int root);
    void exchange(const std::vector<Order>& orders);
    void copy(void* to, const void* from, size_t bytes);
    void fail(Result result, const std::string& why);

    Room room_;
    const Fault fault_ = Fault::from_environment();
    CUstream copies_ = nullptr;
    int calls_ = 0;
    std::atomic<Result> state_ = Result::in_progress;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool ended_ = false;
    std::thread thread_;
};

extern std::atomic<unsigned> operations; // of the process
extern std::atomic<unsigned> at_once;    // how many of them, at most
std::string last_error();

} // namespace softnccl
