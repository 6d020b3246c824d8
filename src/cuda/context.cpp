// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Contexts become current by push and pop, which preserve the application's own stack.
#include "cuda/context.hpp"

namespace gdr::cuda {

namespace {

bool current_is_on(const Driver& driver, CUdevice device)
{
    CUdevice current = -1; // stays without a current context
    return driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device;
}

} // namespace

PrimaryContext::PrimaryContext(const Driver& driver, CUdevice device)
    : driver_(driver), device_(device)
{
    check(driver_.cuDevicePrimaryCtxRetain(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

// The release fails after a device reset and while the process exits, but then nothing is left to
// release.
PrimaryContext::~PrimaryContext()
{
    driver_.cuDevicePrimaryCtxRelease(device_);
}

bool has_primary_context(const Driver& driver, CUdevice device)
{
    unsigned flags = 0;
    int active = 0;
    return driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
           active != 0;
}

unsigned long long context_id(const Driver& driver, CUcontext context)
{
    unsigned long long id = 0;
    if (driver.cuCtxGetId != nullptr && driver.cuCtxGetId(context, &id) != CUDA_SUCCESS) {
        return 0;
    }
    return id;
}

bool is_current(const Driver& driver, unsigned long long context_id)
{
    return context_id != 0 && cuda::context_id(driver, nullptr) == context_id;
}

CurrentContext::CurrentContext(const Driver& driver, CUcontext context) : driver_(driver)
{
    enter(context);
}

CurrentContext::CurrentContext(const Driver& driver, const Pointer& memory) : driver_(driver)
{
    if (memory.context != nullptr) {
        enter(memory.context);
    } else if (memory.device >= 0 && !current_is_on(driver_, memory.device)) {
        primary_.emplace(driver_, memory.device);
        enter(primary_->handle());
    }
}

CurrentContext::~CurrentContext()
{
    CUcontext ignored;
    if (pushed_) {
        driver_.cuCtxPopCurrent(&ignored);
    }
}

void CurrentContext::enter(CUcontext context)
{
    CUcontext current = nullptr;
    check(driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != context) {
        check(driver_.cuCtxPushCurrent(context), "cuCtxPushCurrent");
        pushed_ = true;
    }
}

AnyContext::AnyContext(const Driver& driver)
{
    CUcontext current = nullptr;
    check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != nullptr) {
        return;
    }
    int devices = 0;
    check(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
    for (CUdevice device = 0; device < devices; ++device) {
        if (has_primary_context(driver, device)) {
            primary_.emplace(driver, device);
            current_.emplace(driver, primary_->handle());
            return;
        }
    }
    throw Error(CUDA_ERROR_INVALID_CONTEXT, "no device has a primary context");
}

} // namespace gdr::cuda
