// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, if the program has loaded and initialised one itself: an HCA has no reason to.
// Members have the names and types that cuda.h gives the functions.
#pragma once

#include <cuda.h>

#define SOFTHCA_CUDA_FUNCTIONS(FUNCTION)                                                           \
    FUNCTION(cuCtxPopCurrent)                                                                      \
    FUNCTION(cuCtxPushCurrent)                                                                     \
    FUNCTION(cuDeviceGetCount)                                                                     \
    FUNCTION(cuDeviceGetUuid)                                                                      \
    FUNCTION(cuDevicePrimaryCtxRetain)                                                             \
    FUNCTION(cuIpcCloseMemHandle)                                                                  \
    FUNCTION(cuIpcGetMemHandle)                                                                    \
    FUNCTION(cuIpcOpenMemHandle)                                                                   \
    FUNCTION(cuMemAddressFree)                                                                     \
    FUNCTION(cuMemAddressReserve)                                                                  \
    FUNCTION(cuMemExportToShareableHandle)                                                         \
    FUNCTION(cuMemImportFromShareableHandle)                                                       \
    FUNCTION(cuMemMap)                                                                             \
    FUNCTION(cuMemRelease)                                                                         \
    FUNCTION(cuMemRetainAllocationHandle)                                                          \
    FUNCTION(cuMemSetAccess)                                                                       \
    FUNCTION(cuMemUnmap)                                                                           \
    FUNCTION(cuMemcpyAsync)                                                                        \
    FUNCTION(cuMemcpyPeerAsync)                                                                    \
    FUNCTION(cuPointerGetAttributes)                                                               \
    FUNCTION(cuStreamCreate)                                                                       \
    FUNCTION(cuStreamSynchronize)

namespace softhca {

struct CudaDriver {
#define SOFTHCA_CUDA_MEMBER(function) decltype(&::function) function;
    SOFTHCA_CUDA_FUNCTIONS(SOFTHCA_CUDA_MEMBER)
#undef SOFTHCA_CUDA_MEMBER
};

// A function of libcuda.so.1 by its name in the library; null where the program has not loaded one.
void* find_in_libcuda(const char* name);

// Null unless the program has loaded a driver that has all these functions.
const CudaDriver* cuda_driver();

// Makes a context current for the length of a scope and leaves the thread's stack of contexts as it
// was.
class CurrentContext {
  public:
    CurrentContext(const CudaDriver& driver, CUcontext context)
        : driver_(driver), pushed_(driver.cuCtxPushCurrent(context) == CUDA_SUCCESS)
    {
    }
    ~CurrentContext()
    {
        CUcontext ignored;
        if (pushed_) {
            driver_.cuCtxPopCurrent(&ignored);
        }
    }
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    // False where the context has been destroyed.
    explicit operator bool() const { return pushed_; }

  private:
    const CudaDriver& driver_;
    const bool pushed_;
};

} // namespace softhca
