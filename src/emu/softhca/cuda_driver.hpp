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
    FUNCTION(cuStreamSynchronize)                                                                  \
    FUNCTION(cuThreadExchangeStreamCaptureMode)

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

// Keeps what the HCA asks of the driver from spoiling the program's captures of streams into
// graphs: an HCA has no part in those. For the length of a scope.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const CudaDriver& driver)
        : driver_(driver),
          exchanged_(driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS)
    {
    }
    ~RelaxedCapture()
    {
        if (exchanged_) {
            driver_.cuThreadExchangeStreamCaptureMode(&mode_);
        }
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const CudaDriver& driver_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // of the thread before
    const bool exchanged_;
};

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
