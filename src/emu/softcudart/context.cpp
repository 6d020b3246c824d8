// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which device a thread works on. A context that the program has made current by the driver API is
// used as it is; else it is the primary one of the thread's device.
#include "emu/softcudart/context.hpp"
#include "emu/softcudart/runtime_api.hpp"

#include <map>
#include <mutex>

namespace softcudart {

namespace {

thread_local int chosen_device = 0;

struct Primaries {
    std::mutex mutex;
    std::map<int, CUcontext> retained;
};

Primaries& primaries()
{
    static auto& instance = *new Primaries;
    return instance;
}

bool active(int device)
{
    unsigned flags = 0;
    int is_active = 0;
    check(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
    return is_active != 0;
}

/// Whether the current context is one that ended: a primary one can come to life again.
bool has_ended(CUcontext context)
{
    unsigned version = 0;
    return cuCtxGetApiVersion(context, &version) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void choose(int device)
{
    CUcontext context = primary_context(device);
    check(cuCtxSetCurrent(context));
    chosen_device = device;
}

/// Ends the primary context of a device and all in it, for every thread.
void reset(int device)
{
    Primaries& p = primaries();
    std::lock_guard guard(p.mutex);
    check(cuDevicePrimaryCtxReset(device));
    if (p.retained.erase(device) != 0) {
        check(cuDevicePrimaryCtxRelease(device));
    }
}

} // namespace

CUcontext primary_context(int device)
{
    Primaries& p = primaries();
    std::lock_guard guard(p.mutex);
    auto known = p.retained.find(device);
    if (known != p.retained.end() && active(device)) {
        return known->second;
    }
    CUcontext context = nullptr;
    check(cuDevicePrimaryCtxRetain(&context, device));
    return p.retained[device] = context;
}

int current_device()
{
    CUcontext context = nullptr;
    check(cuCtxGetCurrent(&context));
    if (context == nullptr) {
        return chosen_device;
    }
    CUdevice device = 0;
    check(cuCtxGetDevice(&device));
    return device;
}

void provide(Needs needs)
{
    if (needs == Needs::nothing) {
        return;
    }
    check(cuInit(0));
    CUcontext context = nullptr;
    if (needs == Needs::context) {
        check(cuCtxGetCurrent(&context));
        if (context == nullptr || has_ended(context)) {
            choose(chosen_device);
        }
    }
}

} // namespace softcudart

using namespace softcudart;

cudaError_t cudaSetDevice(int device)
{
    return api(__func__, Needs::driver, [&] { choose(device); });
}

// Since CUDA 12.
SOFTCUDART_EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    return api(__func__, Needs::driver, [&] {
        require((flags & ~1u) == 0); // cudaInitDeviceFlagsAreValid
        if (flags != 0) {
            check(cuDevicePrimaryCtxSetFlags(device, device_flags));
        }
        primary_context(device);
    });
}

cudaError_t cudaGetDevice(int* device)
{
    return api(__func__, Needs::driver, [&] {
        require(device != nullptr);
        *device = current_device();
    });
}

cudaError_t cudaSetValidDevices(int* devices, int count)
{
    return api(__func__, Needs::driver, [&] {
        require(devices != nullptr && count > 0);
        choose(devices[0]); // the first that works, and all of them do
    });
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    return api(__func__, Needs::driver,
               [&] { return cuDevicePrimaryCtxSetFlags(current_device(), flags); });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags)
{
    return api(__func__, Needs::driver, [&] {
        require(flags != nullptr);
        int is_active = 0;
        return cuDevicePrimaryCtxGetState(current_device(), flags, &is_active);
    });
}

cudaError_t cudaDeviceSynchronize(void)
{
    return api(__func__, Needs::context, [] { return cuCtxSynchronize(); });
}

cudaError_t cudaDeviceReset(void)
{
    return api(__func__, Needs::driver, [] { reset(current_device()); });
}

// Deprecated names, gone with CUDA 13.
SOFTCUDART_EXPORT cudaError_t cudaThreadSynchronize(void)
{
    return cudaDeviceSynchronize();
}
SOFTCUDART_EXPORT cudaError_t cudaThreadExit(void)
{
    return cudaDeviceReset();
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return api(__func__, Needs::context,
               [&] { return cuCtxEnablePeerAccess(primary_context(peer), flags); });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    return api(__func__, Needs::context,
               [&] { return cuCtxDisablePeerAccess(primary_context(peer)); });
}
