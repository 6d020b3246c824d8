// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "copy/kept_block.hpp"

#include "cuda/error.hpp"
#include "cuda/pointer.hpp"

#include <mutex>
#include <utility>

namespace gdr::copy::kept_block {

namespace {

struct Block {
    void* address = nullptr;
    uint64_t buffer_id = 0;
    CUcontext context = nullptr;
};

constinit std::mutex mutex;
constinit Block kept;

// False after its context is gone. The caller holds the lock.
bool lives(const cuda::Driver& driver)
{
    return kept.address != nullptr && cuda::buffer_id(driver, kept.address) == kept.buffer_id;
}

} // namespace

void* take(const cuda::Driver& driver, CUcontext context)
{
    if (context == nullptr && driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS) {
        return nullptr;
    }
    const std::lock_guard guard(mutex);
    if (kept.context != context || !lives(driver)) {
        return nullptr;
    }
    return std::exchange(kept.address, nullptr);
}

bool keep(const cuda::Driver& driver, void* address)
try {
    const cuda::Pointer memory = cuda::classify(driver, address);
    if (memory.kind != cuda::MemoryKind::device || memory.context == nullptr) {
        return false;
    }
    const std::lock_guard guard(mutex);
    if (lives(driver)) {
        return false;
    }
    kept = {address, memory.buffer_id, memory.context};
    return true;
} catch (const cuda::Error&) {
    return false;
}

} // namespace gdr::copy::kept_block
