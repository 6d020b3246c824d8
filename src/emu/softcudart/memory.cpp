// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocation: device, host and managed memory, and memory in stream order from pools.
#include "emu/softcudart/runtime_api.hpp"

using namespace softcudart;

namespace {

/// The memory of nothing is nothing.
CUresult allocate(void** pointer, size_t size)
{
    require(pointer != nullptr);
    *pointer = nullptr;
    CUdeviceptr address = 0;
    if (size > 0) {
        check(cuMemAlloc(&address, size));
    }
    *pointer = reinterpret_cast<void*>(address);
    return CUDA_SUCCESS;
}

CUresult allocate_host(void** pointer, size_t size, unsigned flags)
{
    require(pointer != nullptr);
    *pointer = nullptr;
    return size > 0 ? cuMemHostAlloc(pointer, size, flags) : CUDA_SUCCESS;
}

void allocate_pitch(void** pointer, size_t* pitch, size_t width, size_t height)
{
    require(pointer != nullptr && pitch != nullptr);
    constexpr unsigned kLargestElement = 16;
    CUdeviceptr address = 0;
    *pitch = 0;
    if (width > 0 && height > 0) {
        check(cuMemAllocPitch(&address, pitch, width, height, kLargestElement));
    }
    *pointer = reinterpret_cast<void*>(address);
}

/// The runtime's properties are the driver's.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
const CUmemPoolProps* driver_properties(const cudaMemPoolProps* properties)
{
    return reinterpret_cast<const CUmemPoolProps*>(properties);
}
CUmemPool_attribute driver_attribute(cudaMemPoolAttr attribute)
{
    return static_cast<CUmemPool_attribute>(attribute);
}

} // namespace

// ---- device memory

cudaError_t cudaMalloc(void** pointer, size_t size)
{
    return api(__func__, Needs::context, [&] { return allocate(pointer, size); });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height)
{
    return api(__func__, Needs::context, [&] { allocate_pitch(pointer, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent)
{
    return api(__func__, Needs::context, [&] {
        require(memory != nullptr);
        cudaPitchedPtr result{nullptr, 0, extent.width, extent.height};
        allocate_pitch(&result.ptr, &result.pitch, extent.width, extent.height * extent.depth);
        *memory = result;
    });
}

cudaError_t cudaFree(void* pointer)
{
    return api(__func__, Needs::context,
               [&] { return pointer != nullptr ? cuMemFree(as_address(pointer)) : CUDA_SUCCESS; });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total)
{
    return api(__func__, Needs::context, [&] { return cuMemGetInfo(free, total); });
}

// ---- managed memory

cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        CUdeviceptr address = 0;
        check(cuMemAllocManaged(&address, size, flags));
        *pointer = reinterpret_cast<void*>(address);
    });
}

// ---- host memory

cudaError_t cudaMallocHost(void** pointer, size_t size)
{
    return api(__func__, Needs::context, [&] { return allocate_host(pointer, size, 0); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] { return allocate_host(pointer, size, flags); });
}

cudaError_t cudaFreeHost(void* pointer)
{
    return api(__func__, Needs::context,
               [&] { return pointer != nullptr ? cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] { return cuMemHostRegister(pointer, size, flags); });
}

cudaError_t cudaHostUnregister(void* pointer)
{
    return api(__func__, Needs::context, [&] { return cuMemHostUnregister(pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** pointer, void* host, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        CUdeviceptr address = 0;
        check(cuMemHostGetDevicePointer(&address, host, flags));
        *pointer = reinterpret_cast<void*>(address);
    });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer)
{
    return api(__func__, Needs::context, [&] { return cuMemHostGetFlags(flags, pointer); });
}

// ---- pools

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        CUdeviceptr address = 0;
        if (size > 0) {
            check(cuMemAllocAsync(&address, size, stream));
        }
        *pointer = reinterpret_cast<void*>(address);
    });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        CUdeviceptr address = 0;
        check(cuMemAllocFromPoolAsync(&address, size, pool, stream));
        *pointer = reinterpret_cast<void*>(address);
    });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        return pointer != nullptr ? cuMemFreeAsync(as_address(pointer), stream) : CUDA_SUCCESS;
    });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device)
{
    return api(__func__, Needs::driver, [&] { return cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device)
{
    return api(__func__, Needs::driver, [&] { return cuDeviceGetMemPool(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return api(__func__, Needs::driver, [&] { return cuDeviceSetMemPool(device, pool); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties)
{
    return api(__func__, Needs::driver,
               [&] { return cuMemPoolCreate(pool, driver_properties(properties)); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return api(__func__, Needs::driver, [&] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    return api(__func__, Needs::driver, [&] { return cuMemPoolTrimTo(pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
{
    return api(__func__, Needs::driver,
               [&] { return cuMemPoolSetAttribute(pool, driver_attribute(attribute), value); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
{
    return api(__func__, Needs::driver,
               [&] { return cuMemPoolGetAttribute(pool, driver_attribute(attribute), value); });
}
