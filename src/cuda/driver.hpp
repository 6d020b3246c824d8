// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, libcuda.so.1, found at run time: nothing here links to it, so that the module
// loads where there is none. Members have the names and types that cuda.h gives the functions;
// cuda.h renames most functions to the version that was compiled against (cuMemAlloc is
// cuMemAlloc_v2), and exactly that entry point is looked up, whatever newer ones the driver has.
#pragma once

#include "cuda/error.hpp"

#include <cuda.h>

#include <string>

// Every function that is used; a driver without one of them is not used at all. These touch nothing
// that a capture of streams depends on, in no mode.
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

// These, or some of them, a capture under way in any thread may prohibit: they run in the scope of
// a RelaxedCapture.
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

// Stream memory operations on words of 64 bits, and nodes of graphs with their user objects, which
// a driver of before CUDA 11.7 has not all of.
#define GDR_CUDA_OPTIONAL_FUNCTIONS(FUNCTION)                                                      \
    FUNCTION(cuGraphAddBatchMemOpNode)                                                             \
    FUNCTION(cuGraphAddHostNode)                                                                   \
    FUNCTION(cuGraphReleaseUserObject)                                                             \
    FUNCTION(cuGraphRetainUserObject)                                                              \
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

    // Functions that a driver may lack; nullptr then.
    GDR_CUDA_OPTIONAL_FUNCTIONS(GDR_CUDA_MEMBER)
#undef GDR_CUDA_MEMBER
    decltype(&::cuMemGetHandleForAddressRange) cuMemGetHandleForAddressRange; // CUDA 11.7; relaxed
    decltype(&::cuFlushGPUDirectRDMAWrites) cuFlushGPUDirectRDMAWrites;       // CUDA 11.3; relaxed
    CUresult (*cuCtxGetId)(CUcontext context, unsigned long long* id);        // CUDA 12.0
    CUresult (*cuStreamGetId)(CUstream stream, unsigned long long* id);       // CUDA 12.0

    // cuStreamGetCaptureInfo_v2 and cuStreamUpdateCaptureDependencies of CUDA 11.3: later headers
    // give their names to functions with data of edges.
    CUresult (*capture_info)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                             CUgraph* graph, const CUgraphNode** dependencies, size_t* count);
    CUresult (*update_capture_dependencies)(CUstream stream, CUgraphNode* dependencies,
                                            size_t count, unsigned flags);
};

// The driver where this process may come to use a GPU, as far as that can be told without
// initialising CUDA: the first call loads the library and looks for a GPU (inventory.hpp). Its
// functions answer CUDA_ERROR_NOT_INITIALIZED until somebody has called cuInit. It stays loaded for
// the life of the process. nullptr: there is none; the first answer is kept. Does not throw. Any
// thread; where there is one, one atomic load after the first call.
//
// CUDA does not survive fork: in a child of a process in which it was initialised the answer is
// nullptr, and every function of the parent's answer returns CUDA_ERROR_NOT_INITIALIZED.
const Driver* open_driver();

// The same if somebody has initialised CUDA in this process; that is never done here. Any thread;
// while nobody has, one call of the driver (6 to 9 ns), then as open_driver().
const Driver* initialised_driver();

// Whether nobody has initialised CUDA in this process so far: no memory is CUDA's yet. As
// initialised_driver().
bool is_untouched();

// Initialises CUDA (cuInit), for who is asked to by the program, or is one himself: the driver,
// with at least one device; nullptr if that is not possible; the first answer is kept. Does not
// throw. Any thread.
const Driver* driver();

// Whether this is a child of a process in which CUDA was initialised, or one of its children.
bool in_forked_child();

// Why open_driver() or driver() returned nullptr, in one line that names the cause: what dlopen
// said, the symbol that is missing, no GPU, the error of cuInit, or fork. Empty before the first
// call and where there is a driver.
std::string unavailable_reason();

// The entry of the driver with this name, which everybody calls; nullptr: it has none, or is not
// open.
void* entry(const char* name);

// The functions of the driver as they are, none of which enters a RelaxedCapture: for who is in
// one.
const Driver& plain_driver();

} // namespace gdr::cuda
