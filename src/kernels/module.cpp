// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The PTX is part of the library, as the build has compiled it.
#include "kernels/module.hpp"
#include "cuda/context.hpp"
#include "kernels/device.hpp"

#include <algorithm>
#include <stdexcept>

namespace gdr::kernels {

bool built()
{
    return pack_ptx != nullptr;
}

std::string why_not_built()
{
    return built() ? std::string()
                   : "built without kernels for GPUs: configure had found no clang that compiles "
                     "them (--with-clang)";
}

Module::Module(const cuda::Driver& driver, CUcontext context, const char* ptx)
    : driver_(driver), context_(context), ptx_(ptx)
{
}

// Fails where the context has ended, and took the module along.
Module::~Module()
{
    if (module_ == nullptr)
        return;
    try {
        const cuda::CurrentContext current(driver_, context_);
        driver_.cuModuleUnload(module_);
    } catch (const cuda::Error&) {
    }
}

CUfunction Module::function(const std::string& name)
{
    if (ptx_ == nullptr)
        throw std::runtime_error(why_not_built());
    const cuda::CurrentContext current(driver_, context_);
    const std::lock_guard guard(mutex_);
    if (module_ == nullptr)
        cuda::check(driver_.cuModuleLoadData(&module_, ptx_), "cuModuleLoadData");
    CUfunction function = nullptr;
    cuda::check(driver_.cuModuleGetFunction(&function, module_, name.c_str()),
                "cuModuleGetFunction");
    return function;
}

void Module::launch(CUfunction kernel, uint64_t items, uint32_t at_once, const void* arguments,
                    CUstream stream) const
{
    // Few items are spread over many multiprocessors, rather than done several by a thread.
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
