// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What asks for nothing here: hints where managed memory should be, which the CPU reaches wherever
// it is. The arguments after those named differ between versions of CUDA, and are not looked at.
#include "emu/softcudart/api.hpp"

#include <initializer_list>

using namespace softcudart;

namespace {

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

} // namespace

SOFTCUDART_EXPORT int cudaMemAdvise(const void* memory, size_t size)
{
    return api(__func__, Needs::context, [&] { take_hint(memory, size); });
}

SOFTCUDART_EXPORT int cudaMemPrefetchAsync(const void* memory, size_t size)
{
    return api(__func__, Needs::context, [&] { take_hint(memory, size); });
}

SOFTCUDART_ALSO(cudaMemAdvise_v2, cudaMemAdvise)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync)
SOFTCUDART_ALSO(cudaMemPrefetchAsync_v2_ptsz, cudaMemPrefetchAsync)
