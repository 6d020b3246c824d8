// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The build has compiled the PTX into the library.
#include "kernels/loaded_kernels.hpp"
#include "cuda/context.hpp"
#include "kernels/device.hpp"

#include <algorithm>
#include <stdexcept>

namespace gdr::kernels {

bool built()
{
    return !pack_ptx.empty();
}

std::string why_not_built()
{
    return built() ? std::string()
                   : "built without kernels for GPUs: configure had found no clang that compiles "
                     "them (--with-clang)";
}

LoadedKernels::LoadedKernels(const cuda::Driver& driver, CUcontext context,
                             std::span<const PtxKernel> ptx)
    : driver_(driver), context_(context), ptx_(ptx)
{
}

// Fails if the context has ended; then its modules are gone, too.
LoadedKernels::~LoadedKernels()
{
    if (loaded_.empty()) {
        return;
    }
    try {
        const cuda::CurrentContext current(driver_, context_);
        for (const auto& [name, kernel] : loaded_) {
            driver_.cuModuleUnload(kernel.module);
        }
    } catch (const cuda::Error&) {
    }
}

CUfunction LoadedKernels::function(std::string_view name)
{
    if (ptx_.empty()) {
        throw std::runtime_error(why_not_built());
    }
    const std::lock_guard guard(mutex_);
    if (const auto known = loaded_.find(name); known != loaded_.end()) {
        return known->second.function;
    }
    const auto kernel = std::ranges::find(ptx_, name, &PtxKernel::name);
    if (kernel == ptx_.end()) {
        cuda::check(CUDA_ERROR_NOT_FOUND, "a kernel of this library");
    }
    const cuda::CurrentContext current(driver_, context_);
    Loaded& loaded = loaded_[kernel->name];
    try {
        cuda::check(driver_.cuModuleLoadData(&loaded.module, kernel->ptx), "cuModuleLoadData");
        cuda::check(
            driver_.cuModuleGetFunction(&loaded.function, loaded.module, kernel->name.data()),
            "cuModuleGetFunction");
    } catch (...) {
        if (loaded.module != nullptr) {
            driver_.cuModuleUnload(loaded.module);
        }
        loaded_.erase(kernel->name);
        throw;
    }
    return loaded.function;
}

void LoadedKernels::launch(CUfunction kernel, uint64_t items, uint32_t at_once,
                           const void* arguments, CUstream stream) const
{
    // A few items are spread over many multiprocessors instead of giving each thread several.
    constexpr uint64_t kEnoughBlocks = 512;
    const auto blocks_for = [&](uint64_t per_thread) {
        const uint64_t per_block = kBlockThreads * per_thread;
        return (items + per_block - 1) / per_block;
    };
    const uint64_t blocks = std::max(blocks_for(at_once), std::min(blocks_for(1), kEnoughBlocks));
    void* parameters[] = {const_cast<void*>(arguments)};
    cuda::check(driver_.cuLaunchKernel(kernel, static_cast<unsigned>(blocks), 1, 1, kBlockThreads,
                                       1, 1, 0, stream, parameters, nullptr),
                "cuLaunchKernel");
}

} // namespace gdr::kernels
