// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// As much of the CUDA driver API as the examples need. libcuda.so.1 is opened at run time: they
// build where there is no GPU, and link with nothing of CUDA.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <mpi.h>

namespace gpu {

[[noreturn]] inline void fail(const char* what, const char* why)
{
    std::fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

// The driver's function of that name.
template <class Function>
Function symbol(const char* name)
{
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = driver == nullptr ? nullptr : dlsym(driver, name);
    if (function == nullptr) {
        fail(name, dlerror());
    }
    return reinterpret_cast<Function>(function);
}

inline void check(CUresult result, const char* what)
{
    if (result == CUDA_SUCCESS) {
        return;
    }
    const char* text = "unknown error";
    symbol<decltype(&cuGetErrorString)>("cuGetErrorString")(result, &text);
    fail(what, text);
}

// cuda.h renames functions to their newest versions, GPU_CALL(cuMemAlloc, ...) calls cuMemAlloc_v2.
#define GPU_STRING(name) #name
#define GPU_NAME(name) GPU_STRING(name)
#define GPU_TRY(function, ...) gpu::symbol<decltype(&function)>(GPU_NAME(function))(__VA_ARGS__)
#define GPU_CALL(function, ...) gpu::check(GPU_TRY(function, __VA_ARGS__), #function)

// Chooses a GPU for this rank, the ranks of one host in turn, and makes it current.
inline void choose()
{
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int rank_on_host, count;
    MPI_Comm_rank(host, &rank_on_host);
    MPI_Comm_free(&host);

    GPU_CALL(cuInit, 0);
    GPU_CALL(cuDeviceGetCount, &count);
    if (count == 0) {
        fail("cuDeviceGetCount", "there is no GPU");
    }
    CUdevice device;
    CUcontext context;
    GPU_CALL(cuDeviceGet, &device, rank_on_host % count);
    GPU_CALL(cuDevicePrimaryCtxRetain, &context, device);
    GPU_CALL(cuCtxSetCurrent, context);
}

// GPU memory for elements of type T. data() is what MPI gets; the CPU cannot touch it.
template <class T>
class Buffer {
  public:
    explicit Buffer(size_t count) { GPU_CALL(cuMemAlloc, &address_, count * sizeof(T)); }
    explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { set(values); }
    ~Buffer() { GPU_CALL(cuMemFree, address_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    T* data() { return reinterpret_cast<T*>(address_); }

    // Copies to and from the first elements.
    void set(const std::vector<T>& values)
    {
        GPU_CALL(cuMemcpyHtoD, address_, values.data(), values.size() * sizeof(T));
    }
    std::vector<T> get(size_t count) const
    {
        std::vector<T> values(count);
        GPU_CALL(cuMemcpyDtoH, values.data(), address_, count * sizeof(T));
        return values;
    }

  private:
    CUdeviceptr address_ = 0;
};

} // namespace gpu
