// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making an HCA's writes visible. With SOFTCUDA_RDMA_ORDERING a device's copies and memsets work on
// a view of its memory of their own and write through to the alias, which is what HCAs read and
// write: what an HCA wrote is not seen before a flush. A real device's may come late; here all of
// it does.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/memory.hpp"

using namespace softcuda;

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope)
{
    return api(__func__, Needs::context, [&] {
        require(target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
        const int ordinal = current_context()->device;
        require(device(ordinal).ordering() != Device::Ordering::none, CUDA_ERROR_NOT_SUPPORTED);
        flush_rdma_writes(ordinal);
    });
}
