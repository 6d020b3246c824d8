// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Captures under way, and the calls by which they begin and end.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/stream.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

/// What was captured. Nothing can be run again: the graph knows only how much it was.
struct CUgraph_st {
    size_t nodes = 0;
};

namespace softcuda {

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Names the calling thread among those that live.
const void* this_thread()
{
    return &thread_mode;
}

struct Capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    const void* thread; // that began it
    CUgraph graph;
    bool valid = true;
};

struct Captures {
    std::mutex mutex;
    std::map<CUstream, Capture> under_way;
    std::atomic<size_t> count{0}; // of those: where there are none, nobody takes the lock
    std::set<CUgraph> graphs;     // handed out
    uint64_t next_id = 1;
};

Captures& captures()
{
    static auto& instance = *new Captures;
    return instance;
}

bool any()
{
    return captures().count.load(std::memory_order_acquire) > 0;
}

/// The rest are called with the lock held.

Capture* find(CUstream stream)
{
    auto found = captures().under_way.find(stream);
    return found != captures().under_way.end() ? &found->second : nullptr;
}

bool prohibits(const Capture& capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return false;
    }
    if (capture.thread == this_thread()) {
        return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    }
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/// Invalidates the captures for which the condition holds, and throws `result` if there were any.
template <typename Condition>
void invalidate_if(Condition&& condition, CUresult result)
{
    bool found = false;
    for (auto& [stream, capture] : captures().under_way) {
        if (condition(stream, capture)) {
            capture.valid = false;
            found = true;
        }
    }
    require(!found, result);
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode)
{
    require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream stream = resolve_stream(handle);
    require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    std::lock_guard guard(captures().mutex);
    require(find(stream) == nullptr, CUDA_ERROR_ILLEGAL_STATE);
    captures().under_way.emplace(
        stream, Capture{captures().next_id++, mode, this_thread(), new CUgraph_st{}});
    ++captures().count;
    return CUDA_SUCCESS;
}

CUstreamCaptureStatus status_of(const Capture* capture)
{
    return capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
           : capture->valid   ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                              : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult query(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph)
{
    require(status != nullptr);
    CUstream stream = resolve_stream(handle);
    std::lock_guard guard(captures().mutex);
    const Capture* capture = find(stream);
    *status = status_of(capture);
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id != nullptr) {
            *id = capture->id;
        }
        if (graph != nullptr) {
            *graph = capture->graph;
        }
    }
    return CUDA_SUCCESS;
}

} // namespace

void require_no_capture()
{
    if (any()) {
        std::lock_guard guard(captures().mutex);
        invalidate_if([](CUstream, const Capture& capture) { return prohibits(capture); },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

void require_not_captured(CUstream stream)
{
    if (any()) {
        std::lock_guard guard(captures().mutex);
        invalidate_if([&](CUstream other, const Capture&) { return other == stream; },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

void require_not_captured(CUcontext context)
{
    if (any()) {
        std::lock_guard guard(captures().mutex);
        invalidate_if([&](CUstream other, const Capture&) { return other->context == context; },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

bool record(CUstream stream)
{
    if (!any()) {
        return false;
    }
    std::lock_guard guard(captures().mutex);
    if (stream->legacy) {
        invalidate_if(
            [&](CUstream other, const Capture&) {
                return other->context == stream->context &&
                       (other->flags & CU_STREAM_NON_BLOCKING) == 0;
            },
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        return false;
    }
    Capture* capture = find(stream);
    if (capture != nullptr) {
        require(capture->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        ++capture->graph->nodes;
    }
    return capture != nullptr;
}

uint64_t capture_of(CUstream stream)
{
    if (!any()) {
        return 0;
    }
    std::lock_guard guard(captures().mutex);
    const Capture* capture = find(stream);
    return capture != nullptr ? capture->id : 0;
}

void invalidate(uint64_t id, CUresult result)
{
    std::lock_guard guard(captures().mutex);
    invalidate_if([&](CUstream, const Capture& capture) { return capture.id == id; }, result);
    throw Error{result}; // the capture has ended
}

} // namespace softcuda

using namespace softcuda;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode)
{
    return api(__func__, Needs::init, [&] {
        require(mode != nullptr && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL &&
                *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
        std::swap(*mode, thread_mode);
    });
}

#undef cuStreamBeginCapture
SOFTCUDA_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
    return api(__func__, Needs::init, [&] { return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); });
}

SOFTCUDA_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return api(__func__, Needs::init, [&] { return begin(stream, mode); });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph)
{
    return api(__func__, Needs::init, [&] {
        require(graph != nullptr);
        CUstream stream = resolve_stream(handle);
        std::lock_guard guard(captures().mutex);
        const Capture* under_way = find(stream);
        require(under_way != nullptr, CUDA_ERROR_ILLEGAL_STATE);
        const Capture capture = *under_way;
        require(capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.thread == this_thread(),
                CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        captures().under_way.erase(stream);
        --captures().count;
        *graph = nullptr;
        if (!capture.valid) {
            delete capture.graph;
            throw Error{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
        }
        captures().graphs.insert(capture.graph);
        *graph = capture.graph;
    });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status)
{
    return api(__func__, Needs::init, [&] { return query(stream, status, nullptr, nullptr); });
}

#undef cuStreamGetCaptureInfo
SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                                cuuint64_t* id)
{
    return api(__func__, Needs::init, [&] { return query(stream, status, id, nullptr); });
}

// Nodes, and so the dependencies of the next one, are not there to be shown.

#undef cuStreamGetCaptureInfo_v2
SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                                   cuuint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** dependencies, size_t* count)
{
    return api(__func__, Needs::init, [&] {
        require(dependencies == nullptr && count == nullptr, CUDA_ERROR_NOT_SUPPORTED);
        return query(stream, status, id, graph);
    });
}

// CUgraphEdgeData came with CUDA 12.3.
#if CUDA_VERSION >= 12030
using EdgeData = CUgraphEdgeData;
#else
using EdgeData = void;
#endif

SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                                   cuuint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** dependencies,
                                                   const EdgeData** edges, size_t* count)
{
    return api(__func__, Needs::init, [&] {
        require(dependencies == nullptr && edges == nullptr && count == nullptr,
                CUDA_ERROR_NOT_SUPPORTED);
        return query(stream, status, id, graph);
    });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count)
{
    return api(__func__, Needs::init, [&] {
        require(count != nullptr);
        require(nodes == nullptr, CUDA_ERROR_NOT_SUPPORTED);
        std::lock_guard guard(captures().mutex);
        require(captures().graphs.contains(graph));
        *count = graph->nodes;
    });
}

CUresult cuGraphDestroy(CUgraph graph)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(captures().mutex);
        require(captures().graphs.erase(graph) == 1);
        delete graph;
    });
}
