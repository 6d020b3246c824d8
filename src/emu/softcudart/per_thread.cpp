// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The names that cuda_runtime_api.h gives, by macros, to programs whose default stream is each
// thread's own: stream 0 is cudaStreamPerThread there.
#include "emu/softcudart/runtime_api.hpp"

namespace {

const cudaStream_t kMine = cudaStreamPerThread;

cudaStream_t own(cudaStream_t stream)
{
    return stream == nullptr ? kMine : stream;
}

/// What a function without a stream has issued to the thread's own one is done when it returns.
cudaError_t finish(cudaError_t issued)
{
    return issued == cudaSuccess ? cudaStreamSynchronize(kMine) : issued;
}

} // namespace

#define PER_THREAD(name, parameters, call)                                                         \
    SOFTCUDART_EXPORT cudaError_t name parameters                                                  \
    {                                                                                              \
        return call;                                                                               \
    }

// Since CUDA 12, and 12.8.
extern "C" cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id);
extern "C" cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);

// ---- functions without a stream

PER_THREAD(cudaMemcpy_ptds, (void* to, const void* from, size_t size, cudaMemcpyKind kind),
           finish(cudaMemcpyAsync(to, from, size, kind, kMine)))
PER_THREAD(cudaMemcpy2D_ptds,
           (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
            size_t height, cudaMemcpyKind kind),
           finish(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, kMine)))
PER_THREAD(cudaMemcpy3D_ptds, (const cudaMemcpy3DParms* what),
           finish(cudaMemcpy3DAsync(what, kMine)))
PER_THREAD(cudaMemset_ptds, (void* memory, int value, size_t size),
           finish(cudaMemsetAsync(memory, value, size, kMine)))
PER_THREAD(cudaMemset2D_ptds, (void* memory, size_t pitch, int value, size_t width, size_t height),
           finish(cudaMemset2DAsync(memory, pitch, value, width, height, kMine)))
PER_THREAD(cudaMemset3D_ptds, (cudaPitchedPtr memory, int value, cudaExtent extent),
           finish(cudaMemset3DAsync(memory, value, extent, kMine)))

// ---- functions with one

PER_THREAD(cudaMemcpyAsync_ptsz,
           (void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream),
           cudaMemcpyAsync(to, from, size, kind, own(stream)))
PER_THREAD(cudaMemcpy2DAsync_ptsz,
           (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
            size_t height, cudaMemcpyKind kind, cudaStream_t stream),
           cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, own(stream)))
PER_THREAD(cudaMemcpy3DAsync_ptsz, (const cudaMemcpy3DParms* what, cudaStream_t stream),
           cudaMemcpy3DAsync(what, own(stream)))
PER_THREAD(cudaMemsetAsync_ptsz, (void* memory, int value, size_t size, cudaStream_t stream),
           cudaMemsetAsync(memory, value, size, own(stream)))
PER_THREAD(cudaMemset2DAsync_ptsz,
           (void* memory, size_t pitch, int value, size_t width, size_t height,
            cudaStream_t stream),
           cudaMemset2DAsync(memory, pitch, value, width, height, own(stream)))
PER_THREAD(cudaMemset3DAsync_ptsz,
           (cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream),
           cudaMemset3DAsync(memory, value, extent, own(stream)))
PER_THREAD(cudaMallocAsync_ptsz, (void** pointer, size_t size, cudaStream_t stream),
           cudaMallocAsync(pointer, size, own(stream)))
PER_THREAD(cudaMallocFromPoolAsync_ptsz,
           (void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
           cudaMallocFromPoolAsync(pointer, size, pool, own(stream)))
PER_THREAD(cudaFreeAsync_ptsz, (void* pointer, cudaStream_t stream),
           cudaFreeAsync(pointer, own(stream)))
PER_THREAD(cudaStreamGetPriority_ptsz, (cudaStream_t stream, int* priority),
           cudaStreamGetPriority(own(stream), priority))
PER_THREAD(cudaStreamGetFlags_ptsz, (cudaStream_t stream, unsigned* flags),
           cudaStreamGetFlags(own(stream), flags))
PER_THREAD(cudaStreamGetId_ptsz, (cudaStream_t stream, unsigned long long* id),
           cudaStreamGetId(own(stream), id))
PER_THREAD(cudaStreamGetDevice_ptsz, (cudaStream_t stream, int* device),
           cudaStreamGetDevice(own(stream), device))
PER_THREAD(cudaStreamQuery_ptsz, (cudaStream_t stream), cudaStreamQuery(own(stream)))
PER_THREAD(cudaStreamSynchronize_ptsz, (cudaStream_t stream), cudaStreamSynchronize(own(stream)))
PER_THREAD(cudaStreamWaitEvent_ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
           cudaStreamWaitEvent(own(stream), event, flags))
PER_THREAD(cudaStreamAddCallback_ptsz,
           (cudaStream_t stream, cudaStreamCallback_t function, void* argument, unsigned flags),
           cudaStreamAddCallback(own(stream), function, argument, flags))
PER_THREAD(cudaLaunchHostFunc_ptsz, (cudaStream_t stream, cudaHostFn_t function, void* argument),
           cudaLaunchHostFunc(own(stream), function, argument))
PER_THREAD(cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream),
           cudaEventRecord(event, own(stream)))
PER_THREAD(cudaEventRecordWithFlags_ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
           cudaEventRecordWithFlags(event, own(stream), flags))
