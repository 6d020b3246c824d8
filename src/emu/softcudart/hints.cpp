// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What asks for nothing here: hints where managed memory should be, which the CPU reaches wherever
// it is, and questions about the capture of streams, which there is none of. The arguments after
// those named differ between versions of CUDA, and are not looked at.
#include "emu/softcudart/api.hpp"

#include <utility>

using namespace softcudart;

namespace {

constexpr int kNotCapturing = 0; // cudaStreamCaptureStatusNone

/// A hint about `size` bytes of managed memory.
void take_hint(const void* memory, size_t size)
{
    require(size > 0);
    for (const CUdeviceptr address : {as_address(memory), as_address(memory) + size - 1}) {
        unsigned managed = 0;
        check(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
        require(managed != 0);
    }
}

void tell_capture(CUstream stream, int* status)
{
    require(status != nullptr);
    unsigned flags = 0;
    check(cuStreamGetFlags(stream, &flags)); // so that a handle that names none is an error
    *status = kNotCapturing;
}

} // namespace

SOFTCUDART_EXPORT int cudaMemAdvise(const void* memory, size_t size)
{
    return api(__func__, Needs::context, [&] { take_hint(memory, size); });
}

SOFTCUDART_EXPORT int cudaMemPrefetchAsync(const void* memory, size_t size)
{
    return api(__func__, Needs::context, [&] { take_hint(memory, size); });
}

SOFTCUDART_EXPORT int cudaStreamIsCapturing(CUstream stream, int* status)
{
    return api(__func__, Needs::context, [&] { tell_capture(stream, status); });
}

SOFTCUDART_EXPORT int cudaStreamGetCaptureInfo(CUstream stream, int* status)
{
    return api(__func__, Needs::context, [&] { tell_capture(stream, status); });
}

SOFTCUDART_EXPORT int cudaThreadExchangeStreamCaptureMode(int* mode)
{
    return api(__func__, Needs::nothing, [&] {
        thread_local int own = 0; // cudaStreamCaptureModeGlobal
        require(mode != nullptr && *mode >= 0 && *mode <= 2);
        *mode = std::exchange(own, *mode);
    });
}

SOFTCUDART_ALSO(cudaMemAdvise_v2, cudaMemAdvise)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_v2_ptsz, cudaMemPrefetchAsync)
SOFTCUDART_ALSO(cudaStreamIsCapturing_ptsz, cudaStreamIsCapturing)
SOFTCUDART_ALSO(cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo)
SOFTCUDART_ALSO(cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo)
SOFTCUDART_ALSO(cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo)
SOFTCUDART_ALSO(cudaStreamGetCaptureInfo_v2_ptsz, cudaStreamGetCaptureInfo)
SOFTCUDART_ALSO(cudaStreamGetCaptureInfo_v3_ptsz, cudaStreamGetCaptureInfo)
