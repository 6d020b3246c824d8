// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Streams: queues of operations that run later, each stream's in order. Operations are run by a
// worker thread of the process, or by a thread that asks about or waits for them, whichever comes
// first, so a busy machine does not add the worker's wake-up to each copy. The program's functions
// have a thread for them alone: one that blocks stops no stream but its own. Nor does a kernel that
// blocks: a worker is left, and the program's threads run those kernels alone that they wait for.
#pragma once

#include "emu/softcuda/api.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace softcuda {

using Clock = std::chrono::steady_clock;

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

/// What a stream is given or, in a graph, a node does; there it runs once for each launch.
struct Operation {
    std::function<void()> run;
    std::function<bool()> ready{}; // may run from when this holds; empty: at once
    bool delayed = false;          // subject to SOFTCUDA_COPY_LATENCY_US
    bool host_function = false;    // calls into the program: never from a thread of its own
    bool polled = false;           // `ready` depends on memory, nobody announces the change

    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY; // of the node that a capture makes of it
    std::function<Operation()> renew{}; // makes the one to run, where each run has its own

    uint64_t sequence = 0; // order of issue in the process
    Clock::time_point due{};
};
using Operations = std::vector<Operation>;

} // namespace softcuda

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    int priority;
    uint64_t id;
    bool legacy;
    unsigned connection; // hardware queue, shared with others where SOFTCUDA_CONNECTIONS says so
    // The rest belongs to the engine, under its lock.
    std::deque<softcuda::Operation> queue{}; // the front one may be running
    bool running = false;
    uint64_t issued = 0;
    uint64_t completed = 0; // conditions of operations are asked under the lock, too
};

namespace softcuda {

CUstream create_stream(CUcontext context, unsigned flags, int priority);
CUstream create_legacy_stream(CUcontext context);

/// Waits for and destroys the streams of a context, but for the emptied legacy one.
void destroy_streams(CUcontext context);

/// The stream that a handle names, also CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. Throws
/// CUDA_ERROR_INVALID_HANDLE, or CUDA_ERROR_INVALID_CONTEXT for 0 without a context.
CUstream resolve_stream(CUstream handle);

/// Adds an operation to a stream, or several, which a capture takes as one. Waits while the stream
/// has as many as it takes (SOFTCUDA_LAUNCH_QUEUE).
void enqueue(CUstream stream, Operation operation);
void enqueue(CUstream stream, Operations operations);

/// Adds an operation and returns when it has run.
void execute(CUstream stream, Operation operation);

/// A stream of the driver's own: it belongs to no context, and no other stream holds it back.
std::unique_ptr<CUstream_st> create_inner_stream();

/// Adds an operation to each of the streams named, which are the driver's own.
void enqueue_inner(std::vector<std::pair<CUstream, Operation>>&& operations);

/// Runs what may run now in the calling thread; true if everything issued to the stream is done.
bool stream_idle(CUstream stream);

/// Runs at most one operation that may run now in the calling thread.
void help();

/// Waits until all issued so far is done: to a stream, to all streams of a context, of a device.
void wait_for_stream(CUstream stream);
void wait_for_context(CUcontext context);
void wait_for_device(int ordinal);

/// Waits for what an operation will bring about.
void wait_until(const std::function<bool()>& condition);

} // namespace softcuda
