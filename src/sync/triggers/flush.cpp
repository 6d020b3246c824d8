// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/triggers/flush.hpp"

#include "cuda/context.hpp"
#include "sync/ucx/log.hpp"

namespace gdr::sync {

bool flush_writes(const Ucx& ucx, CUcontext context)
{
    const cuda::Driver* driver = cuda::open_driver();
    if (driver == nullptr) {
        return false; // in a forked child
    }
    try {
        const cuda::CurrentContext current(*driver, context);
        cuda::check(
            driver->cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                               CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
            "cuFlushGPUDirectRDMAWrites");
        return true;
    } catch (const cuda::Error& error) {
        log_once(ucx, UCS_LOG_LEVEL_ERROR,
                 std::string(error.what()) +
                     ": streams and kernels may read old bytes where messages have arrived, "
                     "so results may be wrong");
        return false;
    }
}

} // namespace gdr::sync
