// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, opened at run time.
#include "cuda.hpp"

#include <dlfcn.h>

#include "failure.hpp"

namespace ucptest::cuda {
namespace {

struct Driver {
    decltype(&cuInit) init = nullptr;
    decltype(&cuDeviceGetCount) device_get_count = nullptr;
    decltype(&cuDeviceGet) device_get = nullptr;
    decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain = nullptr;
    decltype(&cuCtxSetCurrent) ctx_set_current = nullptr;
    decltype(&cuMemAlloc) mem_alloc = nullptr;
    decltype(&cuMemAllocManaged) mem_alloc_managed = nullptr;
    decltype(&cuMemFree) mem_free = nullptr;
    decltype(&cuMemcpyHtoD) memcpy_htod = nullptr;
    decltype(&cuMemcpyDtoH) memcpy_dtoh = nullptr;
    decltype(&cuCtxSynchronize) ctx_synchronize = nullptr;
};

Driver driver;

void require_success(CUresult result, const char* call)
{
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", call, static_cast<int>(result)));
}

template <typename F>
void resolve(void* library, const char* name, F& function)
{
    function = reinterpret_cast<F>(dlsym(library, name));
    require(function != nullptr, format("libcuda.so.1 lacks %s", name));
}

bool open(int ordinal)
{
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr)
        return false;
    // cuda.h renames the calls whose signature changed: the names here are those in the library.
    resolve(library, "cuInit", driver.init);
    resolve(library, "cuDeviceGetCount", driver.device_get_count);
    resolve(library, "cuDeviceGet", driver.device_get);
    resolve(library, "cuDevicePrimaryCtxRetain", driver.primary_ctx_retain);
    resolve(library, "cuCtxSetCurrent", driver.ctx_set_current);
    resolve(library, "cuMemAlloc_v2", driver.mem_alloc);
    resolve(library, "cuMemAllocManaged", driver.mem_alloc_managed);
    resolve(library, "cuMemFree_v2", driver.mem_free);
    resolve(library, "cuMemcpyHtoD_v2", driver.memcpy_htod);
    resolve(library, "cuMemcpyDtoH_v2", driver.memcpy_dtoh);
    resolve(library, "cuCtxSynchronize", driver.ctx_synchronize);
    int count = 0;
    if (driver.init(0) != CUDA_SUCCESS || driver.device_get_count(&count) != CUDA_SUCCESS ||
        count == 0)
        return false;
    CUdevice device;
    require_success(driver.device_get(&device, ordinal % count), "cuDeviceGet");
    CUcontext context;
    require_success(driver.primary_ctx_retain(&context, device), "cuDevicePrimaryCtxRetain");
    require_success(driver.ctx_set_current(context), "cuCtxSetCurrent");
    return true;
}

} // namespace

bool available(int ordinal)
{
    static const bool opened = open(ordinal);
    return opened;
}

CUdeviceptr allocate(size_t size)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_alloc(&address, size), "cuMemAlloc");
    return address;
}

CUdeviceptr allocate_managed(size_t size)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_alloc_managed(&address, size, CU_MEM_ATTACH_GLOBAL),
                    "cuMemAllocManaged");
    return address;
}

void release(CUdeviceptr address)
{
    require_success(driver.mem_free(address), "cuMemFree");
}

void copy_in(CUdeviceptr target, const void* source, size_t size)
{
    require_success(driver.memcpy_htod(target, source, size), "cuMemcpyHtoD");
    // From pageable memory cuMemcpyHtoD may return before the last byte has reached the device.
    require_success(driver.ctx_synchronize(), "cuCtxSynchronize");
}

void copy_out(void* target, CUdeviceptr source, size_t size)
{
    require_success(driver.memcpy_dtoh(target, source, size), "cuMemcpyDtoH");
}

} // namespace ucptest::cuda
