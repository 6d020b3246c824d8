// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Captures under way, and the calls by which they begin and end.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/stream.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

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
    CUstream origin;
    CUgraph graph;
    bool graph_is_own; // else the program's, which it has given
    bool valid = true;
};

/// A stream that is being captured.
struct Participant {
    std::shared_ptr<Capture> capture;
    std::vector<CUgraphNode> dependencies{}; // of what it is given next
    std::vector<EdgeData> edges{};           // as it was last told of them
};

struct Captures {
    std::map<CUstream, Participant> streams;
    std::atomic<size_t> count{0}; // of those: where there are none, nobody takes the lock
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

Participant* find(CUstream stream)
{
    auto found = captures().streams.find(stream);
    return found != captures().streams.end() ? &found->second : nullptr;
}

void add_participant(CUstream stream, Participant participant)
{
    captures().streams.emplace(stream, std::move(participant));
    ++captures().count;
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
    for (auto& [stream, participant] : captures().streams) {
        if (condition(stream, *participant.capture)) {
            participant.capture->valid = false;
            found = true;
        }
    }
    require(!found, result);
}

/// The legacy stream waits for the blocking streams of its context, which a capture cannot have.
void require_no_implicit_wait(CUstream legacy)
{
    invalidate_if(
        [&](CUstream other, const Capture&) {
            return other->context == legacy->context &&
                   (other->flags & CU_STREAM_NON_BLOCKING) == 0;
        },
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void add(std::vector<CUgraphNode>& to, const std::vector<CUgraphNode>& more)
{
    for (CUgraphNode node : more) {
        if (std::find(to.begin(), to.end(), node) == to.end()) {
            to.push_back(node);
        }
    }
}

Participant& valid_participant(CUstream stream)
{
    Participant* participant = find(stream);
    require(participant != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(participant->capture->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return *participant;
}

/// Gives a captured stream's graph a node: add_to(graph, dependencies).
template <typename AddTo>
bool take(CUstream stream, AddTo&& add_to)
{
    if (!any()) {
        return false;
    }
    auto lock = lock_graphs();
    if (stream->legacy) {
        require_no_implicit_wait(stream);
        return false;
    }
    if (find(stream) == nullptr) {
        return false;
    }
    Participant& participant = valid_participant(stream);
    auto& dependencies = participant.dependencies;
    std::erase_if(dependencies, [](CUgraphNode node) { return !lives(node); });
    dependencies = {add_to(participant.capture->graph, dependencies)};
    return true;
}

/// All nodes that some nodes depend on, and themselves.
std::set<CUgraphNode> with_all_before(std::vector<CUgraphNode> nodes)
{
    std::set<CUgraphNode> all;
    while (!nodes.empty()) {
        CUgraphNode node = nodes.back();
        nodes.pop_back();
        if (lives(node) && all.insert(node).second) {
            nodes.insert(nodes.end(), node->dependencies.begin(), node->dependencies.end());
        }
    }
    return all;
}

/// Whether the stream at which a capture ends comes behind all that others were given.
bool joined(const Capture& capture)
{
    const auto before_end = with_all_before(find(capture.origin)->dependencies);
    return std::all_of(captures().streams.begin(), captures().streams.end(),
                       [&](const auto& entry) {
                           const Participant& other = entry.second;
                           return other.capture.get() != &capture ||
                                  std::all_of(other.dependencies.begin(), other.dependencies.end(),
                                              [&](CUgraphNode node) {
                                                  return !lives(node) || before_end.contains(node);
                                              });
                       });
}

/// `graph`: the program's, into which to capture, or nullptr.
CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph = nullptr,
               const CUgraphNode* dependencies = nullptr, size_t count = 0)
{
    require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream stream = resolve_stream(handle);
    require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    auto lock = lock_graphs();
    require(find(stream) == nullptr, CUDA_ERROR_ILLEGAL_STATE);
    const bool own = graph == nullptr;
    std::vector<CUgraphNode> first;
    if (!own) {
        require(live_graph(graph)->owned_by_program);
        first = nodes_of(graph, dependencies, count);
    } else {
        graph = std::make_unique<CUgraph_st>().release();
    }
    graph->owned_by_program = false;
    add_participant(stream, {std::make_shared<Capture>(Capture{captures().next_id++, mode,
                                                               this_thread(), stream, graph, own}),
                             std::move(first)});
    return CUDA_SUCCESS;
}

void forget(const std::shared_ptr<Capture>& capture)
{
    captures().count -= std::erase_if(
        captures().streams, [&](const auto& entry) { return entry.second.capture == capture; });
    capture->graph->owned_by_program = true;
}

/// Ends a capture whose graph nobody gets; with a reference of its own, for the participants' go.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void close(std::shared_ptr<Capture> capture)
{
    forget(capture);
    if (capture->graph_is_own) {
        delete capture->graph;
    }
}

CUresult end(CUstream handle, CUgraph* graph)
{
    require(graph != nullptr);
    *graph = nullptr;
    CUstream stream = resolve_stream(handle);
    auto lock = lock_graphs();
    Participant* participant = find(stream);
    require(participant != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    const auto capture = participant->capture;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread()) {
        close(capture);
        throw Error{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD};
    }
    if (capture->origin != stream) {
        capture->valid = false;
        throw Error{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED};
    }
    if (!capture->valid || !joined(*capture)) {
        close(capture);
        throw Error{capture->valid ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                   : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
    }
    forget(capture);
    *graph = capture->graph;
    return CUDA_SUCCESS;
}

CUstreamCaptureStatus status_of(const Participant* participant)
{
    return participant == nullptr        ? CU_STREAM_CAPTURE_STATUS_NONE
           : participant->capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                         : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult query(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id = nullptr,
               CUgraph* graph = nullptr, const CUgraphNode** dependencies = nullptr,
               const EdgeData** edges = nullptr, size_t* count = nullptr)
{
    require(status != nullptr);
    CUstream stream = resolve_stream(handle);
    auto lock = lock_graphs();
    if (stream->legacy) {
        for (const auto& [other, participant] : captures().streams) {
            require(other->context != stream->context ||
                        (other->flags & CU_STREAM_NON_BLOCKING) != 0,
                    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
    }
    Participant* participant = find(stream);
    *status = status_of(participant);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        return CUDA_SUCCESS;
    }
    participant->edges.assign(participant->dependencies.size(), EdgeData{});
    const auto answer = [](auto* where, auto what) {
        if (where != nullptr) {
            *where = what;
        }
    };
    answer(id, participant->capture->id);
    answer(graph, participant->capture->graph);
    answer(dependencies, participant->dependencies.data());
    answer(edges, participant->edges.data());
    answer(count, participant->dependencies.size());
    return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode* nodes, const EdgeData* edges,
                             size_t count, unsigned flags)
{
    require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    CUstream stream = resolve_stream(handle);
    auto lock = lock_graphs();
    Participant& participant = valid_participant(stream);
    const auto more = nodes_of(participant.capture->graph, nodes, count);
    require_ordinary(edges, count);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        participant.dependencies.clear();
    }
    add(participant.dependencies, more);
    return CUDA_SUCCESS;
}

} // namespace

void require_no_capture()
{
    if (any()) {
        auto lock = lock_graphs();
        invalidate_if([](CUstream, const Capture& capture) { return prohibits(capture); },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

void require_not_captured(CUstream stream)
{
    if (any()) {
        auto lock = lock_graphs();
        invalidate_if([&](CUstream other, const Capture&) { return other == stream; },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

void require_not_captured(CUcontext context)
{
    if (any()) {
        auto lock = lock_graphs();
        invalidate_if([&](CUstream other, const Capture&) { return other->context == context; },
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

bool record(CUstream stream, Operations& operations)
{
    return take(stream, [&](CUgraph graph, const std::vector<CUgraphNode>& dependencies) {
        const CUgraphNodeType type = operations.front().type;
        return add_node(graph, type, std::move(operations), dependencies);
    });
}

void drop_capture(CUstream stream)
{
    if (any()) {
        auto lock = lock_graphs();
        if (const Participant* participant = find(stream)) {
            close(participant->capture);
        }
    }
}

uint64_t capture_of(CUstream stream)
{
    if (!any()) {
        return 0;
    }
    auto lock = lock_graphs();
    const Participant* participant = find(stream);
    return participant != nullptr ? participant->capture->id : 0;
}

CapturedPoint captured_point(CUstream stream)
{
    if (!any()) {
        return {};
    }
    auto lock = lock_graphs();
    if (find(stream) == nullptr) {
        return {};
    }
    const Participant& participant = valid_participant(stream);
    return {participant.capture->id, participant.dependencies};
}

void join(CUstream stream, const CapturedPoint& point)
{
    auto lock = lock_graphs();
    const auto found =
        std::find_if(captures().streams.begin(), captures().streams.end(),
                     [&](const auto& entry) { return entry.second.capture->id == point.capture; });
    require(found != captures().streams.end(), CUDA_ERROR_CAPTURED_EVENT);
    const std::shared_ptr<Capture> capture = found->second.capture;
    require(capture->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (stream->legacy) {
        capture->valid = false;
        throw Error{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT};
    }
    if (find(stream) == nullptr) {
        add_participant(stream, {capture});
    }
    Participant& participant = valid_participant(stream);
    if (participant.capture != capture) {
        participant.capture->valid = capture->valid = false;
        throw Error{CUDA_ERROR_STREAM_CAPTURE_MERGE};
    }
    add(participant.dependencies, point.nodes);
}

void invalidate(uint64_t id, CUresult result)
{
    [[maybe_unused]] auto lock = lock_graphs(); // the analyzer does not see it end with the throw
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

SOFTCUDA_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                     const CUgraphNode* dependencies,
                                                     const EdgeData* edges, size_t count,
                                                     CUstreamCaptureMode mode)
{
    return api(__func__, Needs::init, [&] {
        require(graph != nullptr);
        require_ordinary(edges, count);
        return begin(stream, mode, graph, dependencies, count);
    });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph)
{
    return api(__func__, Needs::init, [&] { return end(stream, graph); });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status)
{
    return api(__func__, Needs::init, [&] { return query(stream, status); });
}

#undef cuStreamGetCaptureInfo
SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                                cuuint64_t* id)
{
    return api(__func__, Needs::init, [&] { return query(stream, status, id); });
}

#undef cuStreamGetCaptureInfo_v2
SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                                   cuuint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** dependencies, size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return query(stream, status, id, graph, dependencies, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                                   cuuint64_t* id, CUgraph* graph,
                                                   const CUgraphNode** dependencies,
                                                   const EdgeData** edges, size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return query(stream, status, id, graph, dependencies, edges, count); });
}

#undef cuStreamUpdateCaptureDependencies
SOFTCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes,
                                                           size_t count, unsigned flags)
{
    return api(__func__, Needs::init,
               [&] { return update_dependencies(stream, nodes, nullptr, count, flags); });
}

SOFTCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                                              const EdgeData* edges, size_t count,
                                                              unsigned flags)
{
    return api(__func__, Needs::init,
               [&] { return update_dependencies(stream, nodes, edges, count, flags); });
}
