// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Events, and the operations by which streams wait for each other and for the host.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/device.hpp"
#include "emu/softcuda/work.hpp"

#include <memory>
#include <mutex>
#include <set>

namespace softcuda {

namespace {

/// One recording of an event: waiters keep the one they saw, whatever is recorded later.
struct Recording {
    std::atomic<bool> done{false};
    Clock::time_point when{};
    CapturedPoint point{}; // recorded in a capture: a place in its graph, not in time
};

} // namespace

} // namespace softcuda

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    std::shared_ptr<softcuda::Recording> last{};
};

using namespace softcuda;

namespace softcuda {

namespace {

struct Events {
    std::mutex mutex;
    std::set<CUevent> all;
};

Events& events()
{
    static auto& instance = *new Events;
    return instance;
}

/// The event's last recording, nullptr if it was never recorded. Throws
/// CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<Recording> last_recording(CUevent event)
{
    std::lock_guard guard(events().mutex);
    require(events().all.contains(event), CUDA_ERROR_INVALID_HANDLE);
    return event->last;
}

/// The same for those who ask or wait on the host, which is of no use within a capture.
std::shared_ptr<Recording> recording_on_host(CUevent event)
{
    auto recording = last_recording(event);
    if (recording != nullptr && recording->point.capture != 0) {
        invalidate(recording->point.capture, CUDA_ERROR_CAPTURED_EVENT);
    }
    require_no_capture();
    return recording;
}

void set_last_recording(CUevent event, std::shared_ptr<Recording> recording)
{
    std::lock_guard guard(events().mutex);
    require(events().all.contains(event), CUDA_ERROR_INVALID_HANDLE);
    event->last = std::move(recording);
}

CUresult record(CUevent event, CUstream handle, unsigned flags)
{
    require((flags & ~CU_EVENT_RECORD_EXTERNAL) == 0);
    CUstream stream = resolve_stream(handle);
    require_event(event);
    require(event->context->device == stream->context->device);
    CapturedPoint point = captured_point(stream);
    if (point.capture != 0 && (flags & CU_EVENT_RECORD_EXTERNAL) == 0) {
        auto recording = std::make_shared<Recording>();
        recording->point = std::move(point);
        set_last_recording(event, std::move(recording));
    } else {
        enqueue(stream, event_record(event));
    }
    return CUDA_SUCCESS;
}

CUresult wait(CUstream handle, CUevent event, unsigned flags)
{
    require((flags & ~CU_EVENT_WAIT_EXTERNAL) == 0);
    CUstream stream = resolve_stream(handle);
    const auto recording = last_recording(event);
    const uint64_t capture = capture_of(stream);
    if (capture == 0 || (flags & CU_EVENT_WAIT_EXTERNAL) == 0) {
        if (recording == nullptr) {
            return CUDA_SUCCESS;
        }
        if (recording->point.capture != 0) {
            join(stream, recording->point);
            return CUDA_SUCCESS;
        }
        if (capture != 0) {
            invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        }
    }
    enqueue(stream, event_wait(event));
    return CUDA_SUCCESS;
}

float elapsed_milliseconds(CUevent start, CUevent end)
{
    auto first = last_recording(start);
    auto second = last_recording(end);
    require(first != nullptr && second != nullptr &&
                ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) == 0,
            CUDA_ERROR_INVALID_HANDLE);
    require(first->done && second->done, CUDA_ERROR_NOT_READY);
    return std::chrono::duration<float, std::milli>(second->when - first->when).count();
}

} // namespace

void require_event(CUevent event)
{
    last_recording(event);
}

Operation event_record(CUevent event)
{
    return {.run = {}, .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .renew = [event]() -> Operation {
                auto recording = std::make_shared<Recording>();
                set_last_recording(event, recording);
                return {.run = [recording] {
                    recording->when = Clock::now();
                    recording->done.store(true, std::memory_order_release);
                }};
            }};
}

Operation event_wait(CUevent event)
{
    return {
        .run = {}, .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .renew = [event]() -> Operation {
            auto recording = last_recording(event);
            if (recording == nullptr || recording->point.capture != 0) {
                return {.run = [] {}};
            }
            return {
                .run = [] {},
                .ready = [recording] { return recording->done.load(std::memory_order_acquire); }};
        }};
}

Operation host_function(CUhostFn function, void* argument)
{
    require(function != nullptr);
    return {
        .run = [=] { function(argument); }, .host_function = true, .type = CU_GRAPH_NODE_TYPE_HOST};
}

} // namespace softcuda

CUresult cuEventCreate(CUevent* handle, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
        require(handle != nullptr);
        require((flags & ~(kKnown | CU_EVENT_INTERPROCESS)) == 0);
        if ((flags & CU_EVENT_INTERPROCESS) != 0) {
            require((flags & CU_EVENT_DISABLE_TIMING) != 0);
            require(sharing() != Sharing::off, CUDA_ERROR_NOT_SUPPORTED);
        }
        auto* event = new CUevent_st{current_context(), flags};
        std::lock_guard guard(events().mutex);
        events().all.insert(event);
        *handle = event;
    });
}

CUresult cuEventDestroy(CUevent event)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(events().mutex);
        require(events().all.erase(event) == 1, CUDA_ERROR_INVALID_HANDLE);
        delete event;
    });
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return api(__func__, Needs::init, [&] { return record(event, stream, 0); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return api(__func__, Needs::init, [&] { return record(event, stream, flags); });
}

CUresult cuEventQuery(CUevent event)
{
    return api(__func__, Needs::init, [&] {
        auto recording = recording_on_host(event);
        if (recording == nullptr || recording->done.load(std::memory_order_acquire)) {
            require_no_failure(event->context);
            return CUDA_SUCCESS;
        }
        help();
        return CUDA_ERROR_NOT_READY;
    });
}

CUresult cuEventSynchronize(CUevent event)
{
    return api(__func__, Needs::init, [&] {
        if (auto recording = recording_on_host(event)) {
            wait_until([&] { return recording->done.load(std::memory_order_acquire); });
            require_no_failure(event->context);
        }
    });
}

#undef cuEventElapsedTime
SOFTCUDA_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end)
{
    return api(__func__, Needs::init, [&] {
        require(milliseconds != nullptr);
        *milliseconds = elapsed_milliseconds(start, end);
    });
}

SOFTCUDA_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end)
{
    return api(__func__, Needs::init, [&] {
        require(milliseconds != nullptr);
        *milliseconds = elapsed_milliseconds(start, end);
    });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    return api(__func__, Needs::init, [&] { return wait(stream, event, flags); });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument)
{
    return api(__func__, Needs::init,
               [&] { enqueue(resolve_stream(stream), host_function(function, argument)); });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* argument,
                             unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        require(function != nullptr && flags == 0);
        CUstream stream = resolve_stream(handle);
        require_not_captured(stream);
        enqueue(stream,
                {.run = [=] { function(handle, CUDA_SUCCESS, argument); }, .host_function = true});
    });
}
