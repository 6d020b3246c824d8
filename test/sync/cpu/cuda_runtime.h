// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// As much of the CUDA runtime as experts.cu and halo.cu of contrib/examples need, for a host's
// compiler: memory is the host's, and a kernel runs at once, its blocks one after the other, each
// as one thread.
#pragma once

#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>

#define __global__
#define __launch_bounds__(threads)
#define __device__
#define __host__

using cudaError_t = int;
using cudaStream_t = void*;
constexpr cudaError_t cudaSuccess = 0;
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaStreamNonBlocking };

struct uint4 {
    unsigned x, y, z, w;
};
struct Dimension {
    unsigned x;
};
inline Dimension threadIdx{0}, blockIdx{0}, blockDim{1};

inline void __syncthreads() {}
inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// What a launch is made to.
template <class Block>
void run_blocks(unsigned blocks, Block block)
{
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        block();
    }
}

template <class Function>
Function of_driver(const char* name)
{
    return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

// Memory of an emulated GPU, as the CPU reaches it.
template <class Value>
Value* on_host(Value* memory, size_t count)
{
    return static_cast<Value*>(of_driver<void* (*)(const void*, size_t)>("softcuda_host_alias")(
        memory, count * sizeof(Value)));
}

inline const char* cudaGetErrorString(cudaError_t)
{
    return "the emulated driver refuses";
}
inline cudaError_t cudaMalloc(void** memory, size_t bytes)
{
    constexpr size_t kPage = 4096;
    *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    return *memory == nullptr;
}
inline cudaError_t cudaMemset(void* memory, int value, size_t bytes)
{
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, int)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count)
{
    *count = 1;
    return of_driver<CUresult (*)(unsigned)>("cuInit")(0);
}
// libucx-gdr wants a context of the driver's.
inline cudaError_t cudaSetDevice(int device)
{
    CUcontext context = nullptr;
    of_driver<CUresult (*)(CUcontext*, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    return of_driver<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context);
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, int)
{
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize()
{
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
