// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies and memsets.
#include "emu/softcudart/context.hpp"
#include "emu/softcudart/runtime_api.hpp"

using namespace softcudart;

namespace {

/// Whether a copy returns when it is done, or when it is issued to a stream.
struct Sync {};
using Async = cudaStream_t;

CUresult copy(void* to, const void* from, size_t size, cudaMemcpyKind kind, Sync)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoD(as_address(to), from, size);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoH(to, as_address(from), size);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoD(as_address(to), as_address(from), size);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cuMemcpy(as_address(to), as_address(from), size);
    default:
        throw Error{cudaErrorInvalidMemcpyDirection};
    }
}

CUresult copy(void* to, const void* from, size_t size, cudaMemcpyKind kind, Async stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoDAsync(as_address(to), from, size, stream);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoHAsync(to, as_address(from), size, stream);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoDAsync(as_address(to), as_address(from), size, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cuMemcpyAsync(as_address(to), as_address(from), size, stream);
    default:
        throw Error{cudaErrorInvalidMemcpyDirection};
    }
}

struct Rows {
    const void* start;
    size_t pitch;
};

CUmemorytype memory_type(cudaMemcpyKind kind, cudaMemcpyKind of_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return CU_MEMORYTYPE_UNIFIED;
    case cudaMemcpyDeviceToDevice:
        return CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToHost:
        return kind == of_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    default:
        throw Error{cudaErrorInvalidMemcpyDirection};
    }
}

CUDA_MEMCPY2D describe(Rows to, Rows from, size_t width, size_t height, cudaMemcpyKind kind)
{
    require(width <= to.pitch && width <= from.pitch, cudaErrorInvalidPitchValue);
    CUDA_MEMCPY2D copy{};
    copy.dstMemoryType = memory_type(kind, cudaMemcpyHostToDevice);
    copy.dstHost = const_cast<void*>(to.start);
    copy.dstDevice = as_address(to.start);
    copy.dstPitch = to.pitch;
    copy.srcMemoryType = memory_type(kind, cudaMemcpyDeviceToHost);
    copy.srcHost = from.start;
    copy.srcDevice = as_address(from.start);
    copy.srcPitch = from.pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    return copy;
}

CUresult issue(const CUDA_MEMCPY2D& copy, Sync)
{
    return cuMemcpy2D(&copy);
}
CUresult issue(const CUDA_MEMCPY2D& copy, Async stream)
{
    return cuMemcpy2DAsync(&copy, stream);
}

template <typename When>
CUresult copy_2d(Rows to, Rows from, size_t width, size_t height, cudaMemcpyKind kind, When when)
{
    return issue(describe(to, from, width, height, kind), when);
}

Rows slice(const cudaPitchedPtr& memory, const cudaPos& position, size_t z)
{
    const size_t row = (position.z + z) * memory.ysize + position.y;
    return {static_cast<const char*>(memory.ptr) + row * memory.pitch + position.x, memory.pitch};
}

template <typename When>
void copy_3d(const cudaMemcpy3DParms* what, When when)
{
    require(what != nullptr);
    require(what->srcArray == nullptr && what->dstArray == nullptr, CUDA_ERROR_NOT_SUPPORTED);
    for (size_t z = 0; z < what->extent.depth; ++z) {
        check(copy_2d(slice(what->dstPtr, what->dstPos, z), slice(what->srcPtr, what->srcPos, z),
                      what->extent.width, what->extent.height, what->kind, when));
    }
}

CUresult set_2d(void* memory, size_t pitch, int value, size_t width, size_t height, Sync)
{
    return cuMemsetD2D8(as_address(memory), pitch, static_cast<unsigned char>(value), width,
                        height);
}
CUresult set_2d(void* memory, size_t pitch, int value, size_t width, size_t height, Async stream)
{
    return cuMemsetD2D8Async(as_address(memory), pitch, static_cast<unsigned char>(value), width,
                             height, stream);
}

template <typename When>
void set_3d(const cudaPitchedPtr& memory, int value, const cudaExtent& extent, When when)
{
    for (size_t z = 0; z < extent.depth; ++z) {
        check(set_2d(static_cast<char*>(memory.ptr) + z * memory.ysize * memory.pitch, memory.pitch,
                     value, extent.width, extent.height, when));
    }
}

} // namespace

// ---- copies

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind)
{
    return api(__func__, Needs::context, [&] { return copy(to, from, size, kind, Sync{}); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { return copy(to, from, size, kind, stream); });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t size)
{
    return api(__func__, Needs::context, [&] {
        return cuMemcpyPeer(as_address(to), primary_context(to_device), as_address(from),
                            primary_context(from_device), size);
    });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t size, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        return cuMemcpyPeerAsync(as_address(to), primary_context(to_device), as_address(from),
                                 primary_context(from_device), size, stream);
    });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind)
{
    return api(__func__, Needs::context, [&] {
        return copy_2d({to, to_pitch}, {from, from_pitch}, width, height, kind, Sync{});
    });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        return copy_2d({to, to_pitch}, {from, from_pitch}, width, height, kind, stream);
    });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* what)
{
    return api(__func__, Needs::context, [&] { copy_3d(what, Sync{}); });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* what, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { copy_3d(what, stream); });
}

// ---- memset

cudaError_t cudaMemset(void* memory, int value, size_t size)
{
    return api(__func__, Needs::context, [&] {
        return cuMemsetD8(as_address(memory), static_cast<unsigned char>(value), size);
    });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t size, cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] {
        return cuMemsetD8Async(as_address(memory), static_cast<unsigned char>(value), size, stream);
    });
}

cudaError_t cudaMemset2D(void* memory, size_t pitch, int value, size_t width, size_t height)
{
    return api(__func__, Needs::context,
               [&] { return set_2d(memory, pitch, value, width, height, Sync{}); });
}

cudaError_t cudaMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    return api(__func__, Needs::context,
               [&] { return set_2d(memory, pitch, value, width, height, stream); });
}

cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent)
{
    return api(__func__, Needs::context, [&] { set_3d(memory, value, extent, Sync{}); });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent,
                              cudaStream_t stream)
{
    return api(__func__, Needs::context, [&] { set_3d(memory, value, extent, stream); });
}
