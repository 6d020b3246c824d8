/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/*
 * The few calls of the CUDA runtime that UCX's example programs make, in C, over the driver, which
 * is opened at the first of them: so a program can be started where there is none.
 */
#ifndef TEST_PROGRAMS_CUDA_RUNTIME_H
#define TEST_PROGRAMS_CUDA_RUNTIME_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

typedef CUresult cudaError_t;
enum { cudaSuccess = CUDA_SUCCESS, cudaMemAttachGlobal = CU_MEM_ATTACH_GLOBAL };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };

/* cuda.h's macros give cuMemAlloc and others the names of their present versions. */
#define TEST_NAME(call) #call
#define TEST_CALL(call) ((__typeof__(&call))test_driver_function(TEST_NAME(call)))

static inline void* test_driver_function(const char* name)
{
    static void* driver;
    void* function;
    CUdevice device;
    CUcontext context;

    if (!driver) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (!driver) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(98);
        }
        if (TEST_CALL(cuInit)(0) || TEST_CALL(cuDeviceGet)(&device, 0) ||
            TEST_CALL(cuDevicePrimaryCtxRetain)(&context, device) ||
            TEST_CALL(cuCtxSetCurrent)(context)) {
            fprintf(stderr, "no CUDA device\n");
            _exit(98);
        }
    }
    function = dlsym(driver, name);
    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(98);
    }
    return function;
}

static inline cudaError_t cudaMalloc(void** pointer, size_t size)
{
    return TEST_CALL(cuMemAlloc)((CUdeviceptr*)pointer, size);
}

static inline cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags)
{
    return TEST_CALL(cuMemAllocManaged)((CUdeviceptr*)pointer, size, flags);
}

static inline cudaError_t cudaFree(void* pointer)
{
    return TEST_CALL(cuMemFree)((CUdeviceptr)pointer);
}

/* Here every pointer is one that the driver tells apart by itself: cudaMemcpyDefault. */
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size,
                                     enum cudaMemcpyKind kind)
{
    return kind == cudaMemcpyDefault ? TEST_CALL(cuMemcpy)((CUdeviceptr)to, (CUdeviceptr)from, size)
                                     : CUDA_ERROR_INVALID_VALUE;
}

static inline cudaError_t cudaMemset(void* pointer, int value, size_t size)
{
    return TEST_CALL(cuMemsetD8)((CUdeviceptr)pointer, (unsigned char)value, size);
}

static inline const char* cudaGetErrorString(cudaError_t error)
{
    const char* text = NULL;

    TEST_CALL(cuGetErrorString)(error, &text);
    return text ? text : "unknown error";
}

#endif
