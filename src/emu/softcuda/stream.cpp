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
        stream->queue.push_back(std::move(operation));
        ++stream->issued;
        if (stream->queue.size() == 1) {
            active_.push_back(stream);
        }
    }

    void wake_worker()
    {
        if (!worker_started_) {
            worker_started_ = true;
            sigset_t all, old;
            sigfillset(&all); // the program's signals are not for this thread
            pthread_sigmask(SIG_BLOCK, &all, &old);
            std::thread([this] { work(); }).detach();
            pthread_sigmask(SIG_SETMASK, &old, nullptr);
        }
        changed_.notify_all();
    }

    /// Runs one operation that may run now; false if there is none.
    bool step(Lock& lock, bool worker)
    {
        for (CUstream stream : active_) {
            if (!runnable(stream, worker)) {
                continue;
            }
            stream->running = true;
            Operation& operation = stream->queue.front(); // stays put while others are appended
            lock.unlock();
            operation.run();
            lock.lock();
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

    void wait(Lock& lock, const std::function<bool()>& condition)
    {
        while (!condition()) {
            if (!step(lock, false) && !condition()) {
                pause(lock);
            }
        }
    }

  private:
    /// Whether the stream's next operation is held back by others of its context that were issued
    /// before it: the legacy stream and the blocking streams wait for each other, and streams that
    /// share a hardware queue for what is in front of them there.
    bool held_back(CUstream stream) const
    {
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

    bool runnable(CUstream stream, bool worker)
    {
        Operation& next = stream->queue.front();
        if (stream->running || (next.worker_only && !worker) || held_back(stream) ||
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
    void pause(Lock& lock)
    {
        constexpr auto kPollInterval = std::chrono::microseconds(50);
        auto wake = Clock::time_point::max();
        for (CUstream stream : active_) {
            const Operation& next = stream->queue.front();
            if (stream->running) {
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

    void work()
    {
        pthread_setname_np(pthread_self(), "softcuda");
        Lock lock(mutex);
        for (;;) {
            if (!step(lock, true)) {
                pause(lock);
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
    std::condition_variable changed_;
    std::vector<CUstream> active_; // streams with operations, oldest first
    uint64_t sequence_ = 0;
    bool worker_started_ = false;
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
    e.wait(lock, [&] {
        return std::all_of(targets.begin(), targets.end(), [&](const auto& target) {
            return !e.streams.contains(target.first) || target.first->completed >= target.second;
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
    std::vector<Operation> one;
    one.push_back(std::move(operation));
    enqueue(stream, std::move(one));
}

void enqueue(CUstream stream, std::vector<Operation> operations)
{
    if (record(stream)) {
        return;
    }
    Engine& e = engine();
    std::lock_guard guard(e.mutex);
    for (Operation& operation : operations) {
        e.append(stream, std::move(operation));
    }
    e.wake_worker();
}

void execute(CUstream stream, Operation operation)
{
    if (record(stream)) {
        return;
    }
    require_no_capture();
    Engine& e = engine();
    Lock lock(e.mutex);
    e.append(stream, std::move(operation));
    uint64_t target = stream->issued;
    e.wait(lock, [&] { return stream->completed >= target; });
    require_no_failure(stream->context);
}

bool stream_idle(CUstream stream)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    if (stream->completed == stream->issued) {
        return true;
    }
    e.step(lock, false);
    return false;
}

void help()
{
    Engine& e = engine();
    Lock lock(e.mutex);
    e.step(lock, false);
}

void wait_for_stream(CUstream stream)
{
    Engine& e = engine();
    Lock lock(e.mutex);
    uint64_t target = stream->issued;
    e.wait(lock, [&] { return stream->completed >= target; });
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
        require_not_captured(stream);
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
