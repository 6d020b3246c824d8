// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Streams and events.
#include "emu/softcudart/runtime_api.hpp"

#include <memory>

using namespace softcudart;

namespace {

/// A callback with what the program gave for it: it takes another type of error than the driver's.
struct Callback {
    cudaStreamCallback_t function;
    void* argument;
};

void CUDA_CB call_back(CUstream stream, CUresult status, void* callback)
{
    const std::unique_ptr<Callback> own(static_cast<Callback*>(callback));
    own->function(stream, static_cast<cudaError_t>(status), own->argument);
}

} // namespace

// ---- streams

cudaError_t cudaStreamCreate(cudaStream_t* stream)
{
    return api(__func__, Needs::context, [&] { return cuStreamCreate(stream, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags)
{
    return api(__func__, Needs::context, [&] { return cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority)
{
    return api(__func__, Needs::context,
               [&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { return cuStreamDestroy(stream); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority)
{
    return api(__func__, Needs::context, [&] { return cuStreamGetPriority(stream, priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags)
{
    return api(__func__, Needs::context, [&] { return cuStreamGetFlags(stream, flags); });
}

// Since CUDA 12, as the driver's.
extern "C" CUresult cuStreamGetId(CUstream stream, unsigned long long* id);
SOFTCUDART_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id)
{
    return api(__func__, Needs::context, [&] { return cuStreamGetId(stream, id); });
}

// Since CUDA 12.8.
SOFTCUDART_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device)
{
    return api(__func__, Needs::context, [&] {
        require(device != nullptr);
        CUcontext context = nullptr;
        check(cuStreamGetCtx(stream, &context));
        check(cuCtxPushCurrent(context));
        const CUresult result = cuCtxGetDevice(device);
        check(cuCtxPopCurrent(&context));
        return result;
    });
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { return cuStreamQuery(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { return cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return api(__func__, Needs::context, [&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument)
{
    return api(__func__, Needs::context,
               [&] { return cuLaunchHostFunc(stream, function, argument); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                  void* argument, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(function != nullptr);
        auto callback = std::make_unique<Callback>(Callback{function, argument});
        check(cuStreamAddCallback(stream, call_back, callback.get(), flags));
        static_cast<void>(callback.release()); // to call_back
    });
}

// ---- events

cudaError_t cudaEventCreate(cudaEvent_t* event)
{
    return api(__func__, Needs::context, [&] { return cuEventCreate(event, 0); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags)
{
    return api(__func__, Needs::context, [&] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return api(__func__, Needs::context, [&] { return cuEventDestroy(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { return cuEventRecord(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return api(__func__, Needs::context,
               [&] { return cuEventRecordWithFlags(event, stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return api(__func__, Needs::context, [&] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return api(__func__, Needs::context, [&] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    return api(__func__, Needs::context,
               [&] { return cuEventElapsedTime(milliseconds, start, end); });
}

// Since CUDA 12.8; CUDA 13 has the first name alone.
SOFTCUDART_EXPORT cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start,
                                                      cudaEvent_t end)
{
    return cudaEventElapsedTime(milliseconds, start, end);
}
