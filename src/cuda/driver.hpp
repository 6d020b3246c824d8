// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, libcuda.so.1, opened at run time: the module does not link to it, so it loads on
// machines without the driver. Members have the names and types of the functions in cuda.h. cuda.h
// renames most functions to the version that was compiled against (cuMemAlloc is cuMemAlloc_v2),
// and exactly that entry point is looked up, even if the driver has newer ones.
#pragma once

#include "cuda/error.hpp"

#include <cuda.h>

#include <string>

// Every function that is used. A driver that lacks one of them is not used at all. Stream capture
// permits these functions in every mode.
#define GDR_CUDA_HARMLESS_FUNCTIONS(FUNCTION)                                                      \
    FUNCTION(cuCtxGetCurrent)                                                                      \
    FUNCTION(cuCtxGetDevice)                                                                       \
    FUNCTION(cuCtxPopCurrent)                                                                      \
    FUNCTION(cuCtxPushCurrent)                                                                     \
    FUNCTION(cuDeviceCanAccessPeer)                                                                \
    FUNCTION(cuDeviceGet)                                                                          \
    FUNCTION(cuDeviceGetAttribute)                                                                 \
    FUNCTION(cuDeviceGetCount)                                                                     \
    FUNCTION(cuDeviceGetName)                                                                      \
    FUNCTION(cuDeviceGetPCIBusId)                                                                  \
    FUNCTION(cuDeviceGetUuid)                                                                      \
    FUNCTION(cuDevicePrimaryCtxGetState)                                                           \
    FUNCTION(cuDeviceTotalMem)                                                                     \
    FUNCTION(cuEventRecord)                                                                        \
    FUNCTION(cuGetErrorName)                                                                       \
    FUNCTION(cuGetErrorString)                                                                     \
    FUNCTION(cuInit)                                                                               \
    FUNCTION(cuPointerGetAttributes)                                                               \
    FUNCTION(cuStreamGetCtx)                                                                       \
    FUNCTION(cuStreamIsCapturing)                                                                  \
    FUNCTION(cuThreadExchangeStreamCaptureMode)

// A capture in any thread may prohibit these functions, so they run in the scope of a
// RelaxedCapture.
#define GDR_CUDA_RELAXED_FUNCTIONS(FUNCTION)                                                       \
    FUNCTION(cuDevicePrimaryCtxRelease)                                                            \
    FUNCTION(cuDevicePrimaryCtxRetain)                                                             \
    FUNCTION(cuEventCreate)                                                                        \
    FUNCTION(cuEventDestroy)                                                                       \
    FUNCTION(cuEventQuery)                                                                         \
    FUNCTION(cuIpcCloseMemHandle)                                                                  \
    FUNCTION(cuIpcGetMemHandle)                                                                    \
    FUNCTION(cuIpcOpenMemHandle)                                                                   \
    FUNCTION(cuLaunchHostFunc)                                                                     \
    FUNCTION(cuLaunchKernel)                                                                       \
    FUNCTION(cuMemAddressFree)                                                                     \
    FUNCTION(cuMemAddressReserve)                                                                  \
    FUNCTION(cuMemAlloc)                                                                           \
    FUNCTION(cuMemAllocManaged)                                                                    \
    FUNCTION(cuMemExportToShareableHandle)                                                         \
    FUNCTION(cuMemFree)                                                                            \
    FUNCTION(cuMemGetAllocationPropertiesFromHandle)                                               \
    FUNCTION(cuMemHostGetDevicePointer)                                                            \
    FUNCTION(cuMemHostRegister)                                                                    \
    FUNCTION(cuMemHostUnregister)                                                                  \
    FUNCTION(cuMemImportFromShareableHandle)                                                       \
    FUNCTION(cuMemMap)                                                                             \
    FUNCTION(cuMemRelease)                                                                         \
    FUNCTION(cuMemRetainAllocationHandle)                                                          \
    FUNCTION(cuMemSetAccess)                                                                       \
    FUNCTION(cuMemUnmap)                                                                           \
    FUNCTION(cuMemcpy)                                                                             \
    FUNCTION(cuMemcpy2DAsync)                                                                      \
    FUNCTION(cuMemcpyAsync)                                                                        \
    FUNCTION(cuMemcpyDtoDAsync)                                                                    \
    FUNCTION(cuMemcpyPeerAsync)                                                                    \
    FUNCTION(cuMemsetD8)                                                                           \
    FUNCTION(cuModuleGetFunction)                                                                  \
    FUNCTION(cuModuleLoadData)                                                                     \
    FUNCTION(cuModuleUnload)                                                                       \
    FUNCTION(cuPointerSetAttribute)                                                                \
    FUNCTION(cuStreamCreate)                                                                       \
    FUNCTION(cuStreamDestroy)                                                                      \
    FUNCTION(cuStreamSynchronize)

// Stream memory operations on 64-bit words, graph nodes with their user objects, and when kernels
// are loaded. Drivers before CUDA 11.7 lack some of them.
#define GDR_CUDA_OPTIONAL_FUNCTIONS(FUNCTION)                                                      \
    FUNCTION(cuGraphAddBatchMemOpNode)                                                             \
    FUNCTION(cuGraphAddHostNode)                                                                   \
    FUNCTION(cuGraphReleaseUserObject)                                                             \
    FUNCTION(cuGraphRetainUserObject)                                                              \
    FUNCTION(cuModuleGetLoadingMode)                                                               \
    FUNCTION(cuStreamBatchMemOp)                                                                   \
    FUNCTION(cuStreamWaitValue64)                                                                  \
    FUNCTION(cuStreamWriteValue64)                                                                 \
    FUNCTION(cuUserObjectCreate)                                                                   \
    FUNCTION(cuUserObjectRelease)

#define GDR_CUDA_FUNCTIONS(FUNCTION)                                                               \
    GDR_CUDA_HARMLESS_FUNCTIONS(FUNCTION)                                                          \
    GDR_CUDA_RELAXED_FUNCTIONS(FUNCTION)

namespace gdr::cuda {

struct Driver {
#define GDR_CUDA_MEMBER(function) decltype(&::function) function;
    GDR_CUDA_FUNCTIONS(GDR_CUDA_MEMBER)

    // nullptr: the driver lacks the function.
    GDR_CUDA_OPTIONAL_FUNCTIONS(GDR_CUDA_MEMBER)
#undef GDR_CUDA_MEMBER
    decltype(&::cuMemGetHandleForAddressRange) cuMemGetHandleForAddressRange; // CUDA 11.7; relaxed
    decltype(&::cuFlushGPUDirectRDMAWrites) cuFlushGPUDirectRDMAWrites;       // CUDA 11.3; relaxed
    CUresult (*cuCtxGetId)(CUcontext context, unsigned long long* id);        // CUDA 12.0
    CUresult (*cuStreamGetId)(CUstream stream, unsigned long long* id);       // CUDA 12.0

    // cuStreamGetCaptureInfo_v2 and cuStreamUpdateCaptureDependencies of CUDA 11.3. Later headers
    // use these names for functions that take edge data.
    CUresult (*capture_info)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** dependencies, size_t* count);
    CUresult (*update_capture_dependencies)(CUstream stream, CUgraphNode* dependencies,
                                            size_t count, unsigned flags);
};

// The driver, if this process may come to use a GPU, as far as that can be told without
// initialising CUDA: the first call loads the library and looks for a GPU (inventory.hpp). The
// functions return CUDA_ERROR_NOT_INITIALIZED until somebody calls cuInit. The library stays loaded
// for the life of the process. nullptr: there is no driver; the first answer is kept. Does not
// throw. Any thread. If there is a driver, later calls cost one atomic load.
//
// CUDA does not survive fork: in a child of a process that had initialised CUDA this returns
// nullptr, and every function of the parent's table returns CUDA_ERROR_NOT_INITIALIZED.
const Driver* open_driver();

// The same, but only if somebody has initialised CUDA in this process; this function never does.
// Any thread. Costs one driver call (6 to 9 ns) until somebody has, then one atomic load.
const Driver* initialised_driver();

// Whether nobody has initialised CUDA in this process so far, so that no memory can be CUDA's yet.
// Costs as much as initialised_driver().
bool is_untouched();

// Initialises CUDA (cuInit), for programs and for callers whose program asked for CUDA. Returns a
// driver with at least one device, or nullptr; the first answer is kept. Does not throw. Any
// thread.
const Driver* driver();

// Whether this process descends by fork from one that had initialised CUDA.
bool in_forked_child();

// Why open_driver() or driver() returned nullptr, in one line: the error of dlopen, the missing
// symbol, no GPU, the error of cuInit, or fork. Empty before the first call and if there is a
// driver.
std::string unavailable_reason();

// The driver's exported function of this name; nullptr: there is none, or no driver is open.
void* entry(const char* name);

// The driver's functions without a RelaxedCapture around them, for callers that are in one.
const Driver& plain_driver();

} // namespace gdr::cuda
