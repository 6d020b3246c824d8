// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Flushes by the CUDA driver, in the GPUs' primary contexts.
#include "mem/rdma_writes.hpp"

#include <algorithm>

namespace gdr::mem {

RdmaWrites& RdmaWrites::instance()
{
    static auto& instance = *new RdmaWrites; // never destroyed: the driver ends first
    return instance;
}

void RdmaWrites::add(CUdevice gpu)
{
    const std::lock_guard guard(lock_);
    unordered_.insert(gpu);
}

void RdmaWrites::begin(const cuda::Driver& driver, CUdevice gpu)
{
    const std::lock_guard guard(lock_);
    const size_t count = count_.load(std::memory_order_relaxed);
    const auto is_of_gpu = [gpu](const auto& context) { return context->device() == gpu; };
    if (!unordered_.contains(gpu) || count == kMost ||
        std::any_of(contexts_.begin(), contexts_.begin() + count, is_of_gpu)) {
        return;
    }
    contexts_[count] = std::make_unique<cuda::PrimaryContext>(driver, gpu);
    count_.store(count + 1, std::memory_order_release);
    needed_.store(true);
    for (std::atomic<bool>* flag : watches_) {
        flag->store(true);
    }
}

RdmaWrites::Watch::Watch(std::atomic<bool>& flag) : flag_(flag)
{
    RdmaWrites& writes = instance();
    const std::lock_guard guard(writes.lock_);
    writes.watches_.insert(&flag_);
    if (writes.needed()) {
        flag_.store(true);
    }
}

RdmaWrites::Watch::~Watch()
{
    RdmaWrites& writes = instance();
    const std::lock_guard guard(writes.lock_);
    writes.watches_.erase(&flag_);
}

CUresult RdmaWrites::flush() const
{
    const size_t count = count_.load(std::memory_order_acquire);
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count; ++i) {
        const cuda::Driver* driver = cuda::open_driver();
        if (driver == nullptr) {
            break; // in a forked child
        }
        const CUresult flushed = [&] {
            try {
                const cuda::CurrentContext current(*driver, contexts_[i]->handle());
                return driver->cuFlushGPUDirectRDMAWrites(
                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
            } catch (const cuda::Error& error) {
                return error.result();
            }
        }();
        result = result == CUDA_SUCCESS ? flushed : result;
    }
    return result;
}

} // namespace gdr::mem
