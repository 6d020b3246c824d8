// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Captures and graphs: the driver's, whose handles are the runtime's, too. Where versions of CUDA
// give a name to functions of several signatures, it is this runtime's version that decides.
#include "emu/softcudart/api.hpp"

using namespace softcudart;

// Names of the driver that mean other functions with another cuda.h.
#undef cuStreamGetCaptureInfo
#undef cuStreamGetCaptureInfo_v2
#undef cuStreamUpdateCaptureDependencies
#if CUDA_VERSION >= 12030
using EdgeData = CUgraphEdgeData;
#else
struct EdgeData;
#endif
extern "C" {
CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus*, cuuint64_t*);
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, size_t*);
CUresult cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, const EdgeData**, size_t*);
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode*, size_t, unsigned);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream, CUgraphNode*, const EdgeData*, size_t,
                                              unsigned);
}

namespace {

CUstream own(CUstream stream)
{
    return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

CUcontext context()
{
    CUcontext current = nullptr;
    check(cuCtxGetCurrent(&current));
    return current;
}

} // namespace

// ---- captures

/// A function of the runtime that is the driver's, and what it is called in programs with
/// per-thread default streams.
#define FORWARD(name, parameters, call)                                                            \
    SOFTCUDART_EXPORT int name parameters                                                          \
    {                                                                                              \
        return api(__func__, Needs::context, [&] { return call; });                                \
    }
#define FORWARD_STREAM(name, parameters, function, ...)                                            \
    FORWARD(name, parameters, function(stream, __VA_ARGS__))                                       \
    FORWARD(name##_ptsz, parameters, function(own(stream), __VA_ARGS__))

FORWARD(cudaThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),
        cuThreadExchangeStreamCaptureMode(mode))
FORWARD_STREAM(cudaStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
               cuStreamBeginCapture, mode)
FORWARD_STREAM(cudaStreamEndCapture, (CUstream stream, CUgraph* graph), cuStreamEndCapture, graph)
FORWARD_STREAM(cudaStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
               cuStreamIsCapturing, status)
FORWARD_STREAM(cudaStreamGetCaptureInfo_v2,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, size_t* count),
               cuStreamGetCaptureInfo_v2, status, id, graph, dependencies, count)
FORWARD_STREAM(cudaStreamGetCaptureInfo_v3,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, const EdgeData** edges, size_t* count),
               cuStreamGetCaptureInfo_v3, status, id, graph, dependencies, edges, count)
FORWARD_STREAM(cudaStreamUpdateCaptureDependencies_v2,
               (CUstream stream, CUgraphNode* nodes, const EdgeData* edges, size_t count,
                unsigned flags),
               cuStreamUpdateCaptureDependencies_v2, nodes, edges, count, flags)

// The names without a number are those of the first versions, and since CUDA 13 those of the last.

namespace {

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** dependencies, const EdgeData** edges,
                      size_t* count)
{
    return kVersion < 13000
               ? cuStreamGetCaptureInfo(stream, status, id)
               : cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

} // namespace

FORWARD_STREAM(cudaStreamGetCaptureInfo,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, const EdgeData** edges, size_t* count),
               capture_info, status, id, graph, dependencies, edges, count)

// ---- graphs

FORWARD(cudaGraphCreate, (CUgraph * graph, unsigned flags), cuGraphCreate(graph, flags))
FORWARD(cudaGraphDestroy, (CUgraph graph), cuGraphDestroy(graph))
FORWARD(cudaGraphClone, (CUgraph * copy, CUgraph graph), cuGraphClone(copy, graph))
FORWARD(cudaGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count),
        cuGraphGetNodes(graph, nodes, count))
FORWARD(cudaGraphGetRootNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count),
        cuGraphGetRootNodes(graph, nodes, count))
FORWARD(cudaGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type),
        cuGraphNodeGetType(node, type))
FORWARD(cudaGraphNodeFindInClone, (CUgraphNode * node, CUgraphNode original, CUgraph copy),
        cuGraphNodeFindInClone(node, original, copy))
FORWARD(cudaGraphDestroyNode, (CUgraphNode node), cuGraphDestroyNode(node))
FORWARD(cudaGraphAddEmptyNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count),
        cuGraphAddEmptyNode(node, graph, dependencies, count))
FORWARD(cudaGraphAddHostNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
         const CUDA_HOST_NODE_PARAMS* host),
        cuGraphAddHostNode(node, graph, dependencies, count, host))
FORWARD(cudaGraphAddMemsetNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
         const CUDA_MEMSET_NODE_PARAMS* memset),
        cuGraphAddMemsetNode(node, graph, dependencies, count, memset, context()))
FORWARD(cudaGraphAddEventRecordNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
         CUevent event),
        cuGraphAddEventRecordNode(node, graph, dependencies, count, event))
FORWARD(cudaGraphAddEventWaitNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
         CUevent event),
        cuGraphAddEventWaitNode(node, graph, dependencies, count, event))
FORWARD(cudaGraphAddChildGraphNode,
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
         CUgraph child),
        cuGraphAddChildGraphNode(node, graph, dependencies, count, child))

SOFTCUDART_EXPORT int cudaGraphAddMemcpyNode1D(CUgraphNode* node, CUgraph graph,
                                               const CUgraphNode* dependencies, size_t count,
                                               void* to, const void* from, size_t size, int)
{
    return api(__func__, Needs::context, [&] {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        copy.srcDevice = as_address(from);
        copy.dstDevice = as_address(to);
        copy.WidthInBytes = size;
        copy.Height = copy.Depth = 1;
        return cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, context());
    });
}

// ---- executable graphs

FORWARD(cudaGraphInstantiateWithFlags,
        (CUgraphExec * executable, CUgraph graph, unsigned long long flags),
        cuGraphInstantiateWithFlags(executable, graph, flags))
FORWARD(cudaGraphExecDestroy, (CUgraphExec executable), cuGraphExecDestroy(executable))

/// `flags`: since CUDA 12; before, where a node that is at fault is to be told.
SOFTCUDART_EXPORT int cudaGraphInstantiate(CUgraphExec* executable, CUgraph graph,
                                           unsigned long long flags)
{
    return api(__func__, Needs::context, [&] {
        return cuGraphInstantiateWithFlags(executable, graph, kVersion < 12000 ? 0 : flags);
    });
}

#define FORWARD_EXECUTABLE(name, function)                                                         \
    FORWARD(name, (CUgraphExec executable, CUstream stream), function(executable, stream))         \
    FORWARD(name##_ptsz, (CUgraphExec executable, CUstream stream),                                \
            function(executable, own(stream)))

FORWARD_EXECUTABLE(cudaGraphUpload, cuGraphUpload)
FORWARD_EXECUTABLE(cudaGraphLaunch, cuGraphLaunch)

// ---- user objects

FORWARD(cudaUserObjectCreate,
        (CUuserObject * object, void* pointer, CUhostFn destroy, unsigned references,
         unsigned flags),
        cuUserObjectCreate(object, pointer, destroy, references, flags))
FORWARD(cudaUserObjectRetain, (CUuserObject object, unsigned count),
        cuUserObjectRetain(object, count))
FORWARD(cudaUserObjectRelease, (CUuserObject object, unsigned count),
        cuUserObjectRelease(object, count))
FORWARD(cudaGraphRetainUserObject,
        (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
        cuGraphRetainUserObject(graph, object, count, flags))
FORWARD(cudaGraphReleaseUserObject, (CUgraph graph, CUuserObject object, unsigned count),
        cuGraphReleaseUserObject(graph, object, count))
