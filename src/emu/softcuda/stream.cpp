// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The engine that runs the operations of all streams.
#include "emu/softcuda/stream.hpp"
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace softcuda {

namespace {

using Lock = std::unique_lock<std::mutex>;

class Engine {
  public:
    std::mutex mutex;
    std::set<CUstream> streams;
    uint64_t next_id = 1;

    /// The hardware queue of a new stream: they take turns.
    unsigned next_connection(CUcontext context)
    {
        const auto siblings = std::count_if(streams.begin(), streams.end(), [&](CUstream other) {
            return other->context == context;
        });
        return connections_ > 0 ? static_cast<unsigned>(siblings) % connections_ : 0;
    }

    void append(CUstream stream, Operation operation)
    {
        operation.sequence = ++sequence_;
        host_functions_ = host_functions_ || operation.host_function;
        stream->queue.push_back(std::move(operation));
        ++stream->issued;
        if (stream->queue.size() == 1) {
            active_.push_back(stream);
        }
    }

    /// Waits until the stream takes that many operations more.
    void wait_for_room(Lock& lock, CUstream stream, size_t operations)
    {
        wait(
            lock,
            [&] {
                return launch_queue_ == 0 || stream->queue.empty() ||
                       stream->queue.size() + operations <= launch_queue_;
            },
            is(stream));
    }

    /// Lets the threads of the driver look, of which each is started when it is needed.
    void wake_threads()
    {
        if (free_workers_ == 0) {
            add_worker();
        }
        if (host_functions_ && !caller_started_) {
            caller_started_ = true;
            start("softcuda-host", Runner::host_functions);
        }
        changed_.notify_all();
    }

    /// Which operations a thread runs: host functions have one for them alone, and never run in
    /// the program's.
    enum class Runner { program, worker, host_functions };

    /// Some of the streams.
    using Which = std::function<bool(CUstream)>;
    static bool none(CUstream) { return false; }
    static Which is(CUstream stream)
    {
        return [stream](CUstream other) { return other == stream; };
    }

    /// Runs one operation that may run now; false if there is none. A kernel may wait for what the
    /// program's thread does next: that thread runs those alone for which it waits itself.
    bool step(Lock& lock, Runner runner, const Which& awaited = none)
    {
        for (CUstream stream : active_) {
            if (!runnable(stream, runner)) {
                continue;
            }
            Operation& operation = stream->queue.front(); // stays put while others are appended
            const bool kernel = operation.type == CU_GRAPH_NODE_TYPE_KERNEL;
            if (kernel && runner == Runner::program && !awaited(stream)) {
                continue;
            }
            stream->running = true;
            if (kernel && runner == Runner::worker && --free_workers_ == 0) {
                add_worker(); // for what the kernel waits for
            }
            lock.unlock();
            operation.run();
            operation.run = nullptr; // what they hold may need the lock to go
            operation.ready = nullptr;
            lock.lock();
            if (kernel && runner == Runner::worker) {
                ++free_workers_;
            }
            stream->queue.pop_front();
            stream->running = false;
            ++stream->completed;
            if (stream->queue.empty()) {
                std::erase(active_, stream);
            }
            changed_.notify_all();
            return true;
        }
        return false;
    }

    void wait(Lock& lock, const std::function<bool()>& condition, const Which& awaited = none)
    {
        while (!condition()) {
            if (!step(lock, Runner::program, awaited) && !condition()) {
                pause(lock, Runner::program);
            }
        }
    }

  private:
    /// Whether the stream's next operation is held back by others of its context that were issued
    /// before it: the legacy stream and the blocking streams wait for each other, and streams that
    /// share a hardware queue for what is in front of them there.
    bool held_back(CUstream stream) const
    {
        if (stream->context == nullptr) {
            return false;
        }
        uint64_t sequence = stream->queue.front().sequence;
        return std::any_of(active_.begin(), active_.end(), [&](CUstream other) {
            if (other == stream || other->context != stream->context ||
                other->queue.front().sequence > sequence) {
                return false;
            }
            const bool synchronising =
                other->legacy != stream->legacy &&
                ((other->flags | stream->flags) & CU_STREAM_NON_BLOCKING) == 0;
            return synchronising || (connections_ > 0 && other->connection == stream->connection);
        });
    }

    static bool serves(Runner runner, const Operation& operation)
    {
        return operation.host_function == (runner == Runner::host_functions);
    }

    bool runnable(CUstream stream, Runner runner)
    {
        Operation& next = stream->queue.front();
        if (stream->running || !serves(runner, next) || held_back(stream) ||
            (next.ready && !next.ready())) {
            return false;
        }
        if (next.delayed && latency_.count() > 0) {
            if (next.due == Clock::time_point{}) {
                next.due = Clock::now() + latency_;
            }
            return Clock::now() >= next.due;
        }
        return true;
    }

    /// Sleeps until something may have become possible.
    void pause(Lock& lock, Runner runner)
    {
        constexpr auto kPollInterval = std::chrono::microseconds(50);
        auto wake = Clock::time_point::max();
        for (CUstream stream : active_) {
            const Operation& next = stream->queue.front();
            if (stream->running || !serves(runner, next)) {
                continue;
            }
            if (next.polled) {
                wake = std::min(wake, Clock::now() + kPollInterval);
            } else if (next.due != Clock::time_point{}) {
                wake = std::min(wake, next.due);
            }
        }
        if (wake == Clock::time_point::max()) {
            changed_.wait(lock);
        } else {
            changed_.wait_until(lock, wake);
        }
    }

    void add_worker()
    {
        ++free_workers_;
        start("softcuda", Runner::worker);
    }

    void start(const char* name, Runner runner)
    {
        sigset_t all, old;
        sigfillset(&all); // the program's signals are not for this thread
        pthread_sigmask(SIG_BLOCK, &all, &old);
        std::thread([=, this] { work(name, runner); }).detach();
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }

    void work(const char* name, Runner runner)
    {
        pthread_setname_np(pthread_self(), name);
        Lock lock(mutex);
        for (;;) {
            if (!step(lock, runner)) {
                pause(lock, runner);
            }
        }
    }

    static long long configured(const char* variable)
    {
        const char* text = std::getenv(variable);
        return text != nullptr ? std::atoll(text) : 0;
    }

    const std::chrono::microseconds latency_{configured("SOFTCUDA_COPY_LATENCY_US")};
    const unsigned connections_ = static_cast<unsigned>(configured("SOFTCUDA_CONNECTIONS"));
    const size_t launch_queue_ = static_cast<size_t>(configured("SOFTCUDA_LAUNCH_QUEUE"));
    std::condition_variable changed_;
    std::vector<CUstream> active_; // streams with operations, oldest first
    uint64_t sequence_ = 0;
    unsigned free_workers_ = 0; // that are in no kernel: one at least, once there are any
    bool caller_started_ = false;
    bool host_functions_ = false; // there have been some
};

Engine& engine()
{
    static auto& instance = *new Engine;
    return instance;
}

CUstream new_stream(CUcontext context, unsigned flags, int priority, bool legacy)
{
    Engine& e = engine();
    std::lock_guard guard(e.mutex);
    auto* stream =
        new CUstream_st{context, flags, priority, e.next_id++, legacy, e.next_connection(context)};
    e.streams.insert(stream);
    return stream;
}

/// The calling thread's own default streams, by context.
CUstream per_thread_stream(CUcontext context)
{
    thread_local std::map<uint64_t, CUstream> mine;
    CUstream& stream = mine[context->id];
    if (stream == nullptr) {
        stream = create_stream(context, CU_STREAM_DEFAULT, kLeastPriority);
    }
    return stream;
}

template <typename Belongs>
void wait_for_streams(Belongs&& belongs)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    std::vector<std::pair<CUstream, uint64_t>> targets;
    for (CUstream stream : e.streams) {
        if (belongs(stream) && stream->completed != stream->issued) {
            targets.emplace_back(stream, stream->issued);
        }
    }
    e.wait(
        lock,
        [&] {
            return std::all_of(targets.begin(), targets.end(), [&](const auto& target) {
                return !e.streams.contains(target.first) ||
                       target.first->completed >= target.second;
            });
        },
        [&](CUstream stream) {
            return std::any_of(targets.begin(), targets.end(), [&](const auto& target) {
                return target.first == stream && stream->completed < target.second;
            });
        });
}

} // namespace

CUstream create_stream(CUcontext context, unsigned flags, int priority)
{
    return new_stream(context, flags, priority, false);
}

CUstream create_legacy_stream(CUcontext context)
{
    return new_stream(context, CU_STREAM_DEFAULT, kLeastPriority, true);
}

void destroy_streams(CUcontext context)
{
    wait_for_context(context);
    Engine& e = engine();
    std::lock_guard guard(e.mutex);
    std::erase_if(e.streams, [&](CUstream stream) {
        bool dead = stream->context == context && !stream->legacy && stream->queue.empty();
        if (dead) {
            delete stream;
        }
        return dead;
    });
}

CUstream resolve_stream(CUstream handle)
{
    if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        CUcontext context = live_context(nullptr);
        require_no_failure(context);
        return handle == CU_STREAM_PER_THREAD ? per_thread_stream(context) : context->legacy_stream;
    }
    Engine& e = engine();
    std::lock_guard guard(e.mutex);
    require(e.streams.contains(handle), CUDA_ERROR_INVALID_HANDLE);
    require_no_failure(handle->context);
    return handle;
}

void enqueue(CUstream stream, Operation operation)
{
    Operations one;
    one.push_back(std::move(operation));
    enqueue(stream, std::move(one));
}

void enqueue(CUstream stream, Operations operations)
{
    if (record(stream, operations)) {
        return;
    }
    for (Operation& operation : operations) {
        if (operation.renew) {
            operation = operation.renew();
        }
    }
    Engine& e = engine();
    Lock lock(e.mutex);
    e.wait_for_room(lock, stream, operations.size());
    for (Operation& operation : operations) {
        e.append(stream, std::move(operation));
    }
    e.wake_threads();
}

void execute(CUstream stream, Operation operation)
{
    Operations one;
    one.push_back(std::move(operation));
    if (record(stream, one)) {
        return;
    }
    Engine& e = engine();
    Lock lock(e.mutex);
    e.append(stream, std::move(one.front()));
    uint64_t target = stream->issued;
    e.wait(
        lock, [&] { return stream->completed >= target; }, Engine::is(stream));
    require_no_failure(stream->context);
}

std::unique_ptr<CUstream_st> create_inner_stream()
{
    return std::make_unique<CUstream_st>(
        CUstream_st{nullptr, CU_STREAM_NON_BLOCKING, kLeastPriority, 0, false, 0});
}

void enqueue_inner(std::vector<std::pair<CUstream, Operation>>&& operations)
{
    Engine& e = engine();
    std::lock_guard guard(e.mutex);
    for (auto& [stream, operation] : operations) {
        e.append(stream, std::move(operation));
    }
    e.wake_threads();
}

bool stream_idle(CUstream stream)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    if (stream->completed == stream->issued) {
        return true;
    }
    e.step(lock, Engine::Runner::program);
    return false;
}

void help()
{
    Engine& e = engine();
    Lock lock(e.mutex);
    e.step(lock, Engine::Runner::program);
}

void wait_for_stream(CUstream stream)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    uint64_t target = stream->issued;
    e.wait(
        lock, [&] { return stream->completed >= target; }, Engine::is(stream));
}

void wait_for_context(CUcontext context)
{
    wait_for_streams([&](CUstream stream) { return stream->context == context; });
}

void wait_for_device(int ordinal)
{
    wait_for_streams([&](CUstream stream) { return stream->context->device == ordinal; });
}

void wait_until(const std::function<bool()>& condition)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    e.wait(lock, condition);
}

} // namespace softcuda

using namespace softcuda;

CUresult cuStreamCreate(CUstream* handle, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(handle != nullptr && (flags & ~CU_STREAM_NON_BLOCKING) == 0);
        *handle = create_stream(current_context(), flags, kLeastPriority);
    });
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority)
{
    return api(__func__, Needs::context, [&] {
        require(handle != nullptr && (flags & ~CU_STREAM_NON_BLOCKING) == 0);
        *handle = create_stream(current_context(), flags,
                                std::clamp(priority, kGreatestPriority, kLeastPriority));
    });
}

CUresult cuStreamDestroy(CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD,
                CUDA_ERROR_INVALID_HANDLE);
        CUstream stream = resolve_stream(handle);
        drop_capture(stream);
        // The real driver lets the work finish in the background; here the caller waits for it.
        wait_for_stream(stream);
        Engine& e = engine();
        std::lock_guard guard(e.mutex);
        require(e.streams.erase(stream) == 1, CUDA_ERROR_INVALID_HANDLE);
        delete stream;
    });
}

CUresult cuStreamQuery(CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        CUstream stream = resolve_stream(handle);
        require_not_captured(stream);
        require_no_capture();
        const bool idle = stream_idle(stream);
        require_no_failure(stream->context);
        return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuStreamSynchronize(CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        CUstream stream = resolve_stream(handle);
        require_not_captured(stream);
        require_no_capture();
        wait_for_stream(stream);
        require_no_failure(stream->context);
    });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority)
{
    return api(__func__, Needs::init, [&] {
        require(priority != nullptr);
        *priority = resolve_stream(handle)->priority;
    });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags)
{
    return api(__func__, Needs::init, [&] {
        require(flags != nullptr);
        *flags = resolve_stream(handle)->flags;
    });
}

SOFTCUDA_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id)
{
    return api(__func__, Needs::init, [&] {
        require(id != nullptr);
        *id = resolve_stream(handle)->id;
    });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context)
{
    return api(__func__, Needs::init, [&] {
        require(context != nullptr);
        *context = resolve_stream(handle)->context;
    });
}
