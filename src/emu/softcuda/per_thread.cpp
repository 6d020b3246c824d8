// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The entry points of programs whose default stream is each thread's own: stream 0 is
// CU_STREAM_PER_THREAD there. cuda.h gives their names to such programs by macros; softcuda's calls
// of the ordinary ones are what is counted.
#include "emu/softcuda/entry.hpp"
#include "emu/softcuda/graph.hpp"

namespace softcuda {

namespace {

const CUstream kMine = CU_STREAM_PER_THREAD;

CUstream own(CUstream stream)
{
    return stream == nullptr ? kMine : stream;
}

/// What a function without a stream has issued to the thread's own one is done when it returns.
CUresult finish(CUresult issued)
{
    return issued == CUDA_SUCCESS ? cuStreamSynchronize(kMine) : issued;
}

} // namespace

} // namespace softcuda

using namespace softcuda;

#define PER_THREAD(name, parameters, call)                                                         \
    SOFTCUDA_EXPORT CUresult name parameters                                                       \
    {                                                                                              \
        return call;                                                                               \
    }

// ---- functions without a stream

PER_THREAD(cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t length),
           finish(cuMemcpyAsync(to, from, length, kMine)))
PER_THREAD(cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void* from, size_t length),
           finish(cuMemcpyHtoDAsync(to, from, length, kMine)))
PER_THREAD(cuMemcpyDtoH_v2_ptds, (void* to, CUdeviceptr from, size_t length),
           finish(cuMemcpyDtoHAsync(to, from, length, kMine)))
PER_THREAD(cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t length),
           finish(cuMemcpyDtoDAsync(to, from, length, kMine)))
PER_THREAD(cuMemcpyPeer_ptds,
           (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
            size_t length),
           finish(cuMemcpyPeerAsync(to, to_context, from, from_context, length, kMine)))
PER_THREAD(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D* copy), finish(cuMemcpy2DAsync(copy, kMine)))
PER_THREAD(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D* copy),
           finish(cuMemcpy2DAsync(copy, kMine)))
PER_THREAD(cuMemsetD8_v2_ptds, (CUdeviceptr address, unsigned char value, size_t count),
           finish(cuMemsetD8Async(address, value, count, kMine)))
PER_THREAD(cuMemsetD16_v2_ptds, (CUdeviceptr address, unsigned short value, size_t count),
           finish(cuMemsetD16Async(address, value, count, kMine)))
PER_THREAD(cuMemsetD32_v2_ptds, (CUdeviceptr address, unsigned value, size_t count),
           finish(cuMemsetD32Async(address, value, count, kMine)))
PER_THREAD(cuMemsetD2D8_v2_ptds,
           (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height),
           finish(cuMemsetD2D8Async(address, pitch, value, width, height, kMine)))
PER_THREAD(cuMemsetD2D16_v2_ptds,
           (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height),
           finish(cuMemsetD2D16Async(address, pitch, value, width, height, kMine)))
PER_THREAD(cuMemsetD2D32_v2_ptds,
           (CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height),
           finish(cuMemsetD2D32Async(address, pitch, value, width, height, kMine)))

// ---- functions with one

PER_THREAD(cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream),
           cuMemcpyAsync(to, from, length, own(stream)))
PER_THREAD(cuMemcpyHtoDAsync_v2_ptsz,
           (CUdeviceptr to, const void* from, size_t length, CUstream stream),
           cuMemcpyHtoDAsync(to, from, length, own(stream)))
PER_THREAD(cuMemcpyDtoHAsync_v2_ptsz, (void* to, CUdeviceptr from, size_t length, CUstream stream),
           cuMemcpyDtoHAsync(to, from, length, own(stream)))
PER_THREAD(cuMemcpyDtoDAsync_v2_ptsz,
           (CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream),
           cuMemcpyDtoDAsync(to, from, length, own(stream)))
PER_THREAD(cuMemcpyPeerAsync_ptsz,
           (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
            size_t length, CUstream stream),
           cuMemcpyPeerAsync(to, to_context, from, from_context, length, own(stream)))
PER_THREAD(cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D* copy, CUstream stream),
           cuMemcpy2DAsync(copy, own(stream)))
PER_THREAD(cuMemsetD8Async_ptsz,
           (CUdeviceptr address, unsigned char value, size_t count, CUstream stream),
           cuMemsetD8Async(address, value, count, own(stream)))
PER_THREAD(cuMemsetD16Async_ptsz,
           (CUdeviceptr address, unsigned short value, size_t count, CUstream stream),
           cuMemsetD16Async(address, value, count, own(stream)))
PER_THREAD(cuMemsetD32Async_ptsz,
           (CUdeviceptr address, unsigned value, size_t count, CUstream stream),
           cuMemsetD32Async(address, value, count, own(stream)))
PER_THREAD(cuMemsetD2D8Async_ptsz,
           (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height,
            CUstream stream),
           cuMemsetD2D8Async(address, pitch, value, width, height, own(stream)))
PER_THREAD(cuMemsetD2D16Async_ptsz,
           (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height,
            CUstream stream),
           cuMemsetD2D16Async(address, pitch, value, width, height, own(stream)))
PER_THREAD(cuMemsetD2D32Async_ptsz,
           (CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height,
            CUstream stream),
           cuMemsetD2D32Async(address, pitch, value, width, height, own(stream)))
PER_THREAD(cuMemAllocAsync_ptsz, (CUdeviceptr * address, size_t size, CUstream stream),
           cuMemAllocAsync(address, size, own(stream)))
PER_THREAD(cuMemAllocFromPoolAsync_ptsz,
           (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream),
           cuMemAllocFromPoolAsync(address, size, pool, own(stream)))
PER_THREAD(cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream),
           cuMemFreeAsync(address, own(stream)))
PER_THREAD(cuStreamGetPriority_ptsz, (CUstream stream, int* priority),
           cuStreamGetPriority(own(stream), priority))
PER_THREAD(cuStreamGetFlags_ptsz, (CUstream stream, unsigned* flags),
           cuStreamGetFlags(own(stream), flags))
extern "C" CUresult cuStreamGetId(CUstream stream, unsigned long long* id); // since CUDA 12
PER_THREAD(cuStreamGetId_ptsz, (CUstream stream, unsigned long long* id),
           cuStreamGetId(own(stream), id))
PER_THREAD(cuStreamGetCtx_ptsz, (CUstream stream, CUcontext* context),
           cuStreamGetCtx(own(stream), context))
PER_THREAD(cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned flags),
           cuStreamWaitEvent(own(stream), event, flags))
PER_THREAD(cuStreamAddCallback_ptsz,
           (CUstream stream, CUstreamCallback function, void* argument, unsigned flags),
           cuStreamAddCallback(own(stream), function, argument, flags))
PER_THREAD(cuStreamQuery_ptsz, (CUstream stream), cuStreamQuery(own(stream)))
PER_THREAD(cuStreamSynchronize_ptsz, (CUstream stream), cuStreamSynchronize(own(stream)))
PER_THREAD(cuEventRecord_ptsz, (CUevent event, CUstream stream), cuEventRecord(event, own(stream)))
PER_THREAD(cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned flags),
           cuEventRecordWithFlags(event, own(stream), flags))
PER_THREAD(cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void* argument),
           cuLaunchHostFunc(own(stream), function, argument))
PER_THREAD(cuStreamWriteValue32_v2_ptsz,
           (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
           cuStreamWriteValue32(own(stream), address, value, flags))
PER_THREAD(cuStreamWriteValue64_v2_ptsz,
           (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
           cuStreamWriteValue64(own(stream), address, value, flags))
PER_THREAD(cuStreamWaitValue32_v2_ptsz,
           (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
           cuStreamWaitValue32(own(stream), address, value, flags))
PER_THREAD(cuStreamWaitValue64_v2_ptsz,
           (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
           cuStreamWaitValue64(own(stream), address, value, flags))
PER_THREAD(cuStreamBatchMemOp_v2_ptsz,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags),
           cuStreamBatchMemOp(own(stream), count, operations, flags))

// ---- captures and graphs; also what programs of older versions call

#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
extern "C" {
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode*, const EdgeData*, size_t,
                                     CUstreamCaptureMode);
CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus*, cuuint64_t*);
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, size_t*);
CUresult cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, const EdgeData**, size_t*);
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode*, size_t, unsigned);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream, CUgraphNode*, const EdgeData*, size_t,
                                              unsigned);
}

PER_THREAD(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
           cuStreamBeginCapture(own(stream), mode))
PER_THREAD(cuStreamBeginCaptureToGraph_ptsz,
           (CUstream stream, CUgraph graph, const CUgraphNode* dependencies, const EdgeData* edges,
            size_t count, CUstreamCaptureMode mode),
           cuStreamBeginCaptureToGraph(own(stream), graph, dependencies, edges, count, mode))
PER_THREAD(cuStreamEndCapture_ptsz, (CUstream stream, CUgraph* graph),
           cuStreamEndCapture(own(stream), graph))
PER_THREAD(cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus* status),
           cuStreamIsCapturing(own(stream), status))
PER_THREAD(cuStreamGetCaptureInfo_ptsz,
           (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
           cuStreamGetCaptureInfo(own(stream), status, id))
PER_THREAD(cuStreamGetCaptureInfo_v2_ptsz,
           (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
            const CUgraphNode** dependencies, size_t* count),
           cuStreamGetCaptureInfo_v2(own(stream), status, id, graph, dependencies, count))
PER_THREAD(cuStreamGetCaptureInfo_v3_ptsz,
           (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
            const CUgraphNode** dependencies, const EdgeData** edges, size_t* count),
           cuStreamGetCaptureInfo_v3(own(stream), status, id, graph, dependencies, edges, count))
PER_THREAD(cuStreamUpdateCaptureDependencies_ptsz,
           (CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags),
           cuStreamUpdateCaptureDependencies(own(stream), nodes, count, flags))
PER_THREAD(cuStreamUpdateCaptureDependencies_v2_ptsz,
           (CUstream stream, CUgraphNode* nodes, const EdgeData* edges, size_t count,
            unsigned flags),
           cuStreamUpdateCaptureDependencies_v2(own(stream), nodes, edges, count, flags))
PER_THREAD(cuGraphUpload_ptsz, (CUgraphExec executable, CUstream stream),
           cuGraphUpload(executable, own(stream)))
PER_THREAD(cuGraphLaunch_ptsz, (CUgraphExec executable, CUstream stream),
           cuGraphLaunch(executable, own(stream)))
#if CUDA_VERSION >= 12000
PER_THREAD(cuGraphInstantiateWithParams_ptsz,
           (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
           cuGraphInstantiateWithParams(executable, graph, parameters))
#endif
