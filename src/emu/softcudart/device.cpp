// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What there is: versions, devices and what they can.
#include "emu/softcudart/context.hpp"
#include "emu/softcudart/runtime_api.hpp"

using namespace softcudart;

cudaError_t cudaRuntimeGetVersion(int* version)
{
    return api(__func__, Needs::nothing, [&] {
        require(version != nullptr);
        *version = kVersion;
    });
}

cudaError_t cudaDriverGetVersion(int* version)
{
    return api(__func__, Needs::nothing, [&] { return cuDriverGetVersion(version); });
}

cudaError_t cudaGetDeviceCount(int* count)
{
    return api(__func__, Needs::nothing, [&] {
        require(count != nullptr);
        *count = 0; // also where the driver finds none
        provide(Needs::driver);
        return cuDeviceGetCount(count);
    });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device)
{
    return api(__func__, Needs::driver, [&] {
        return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device);
    });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device)
{
    return api(__func__, Needs::driver, [&] { return cuDeviceGetPCIBusId(text, length, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text)
{
    return api(__func__, Needs::driver, [&] { return cuDeviceGetByPCIBusId(device, text); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer)
{
    return api(__func__, Needs::driver,
               [&] { return cuDeviceCanAccessPeer(can_access, device, peer); });
}

// All devices are alike.
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted)
{
    return api(__func__, Needs::driver, [&] {
        require(device != nullptr && wanted != nullptr);
        *device = 0;
    });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest)
{
    return api(__func__, Needs::context,
               [&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                               cudaFlushGPUDirectRDMAWritesScope scope)
{
    return api(__func__, Needs::context, [&] {
        return cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                          static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
    });
}

// As without a profiler: it has nobody to tell.
SOFTCUDART_EXPORT cudaError_t cudaProfilerStart(void)
{
    return api(__func__, Needs::driver, [] {});
}
SOFTCUDART_EXPORT cudaError_t cudaProfilerStop(void)
{
    return api(__func__, Needs::driver, [] {});
}
