// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of src/mem begin with: the first emulated HCA with a registration cache, and the
// first emulated GPU.
#pragma once

#include "../emu/preload.hpp"

#include "abi/host.hpp"
#include "cuda/context.hpp"
#include "mem/cache.hpp"

#include <gtest/gtest.h>

#include <optional>

#include <dlfcn.h>

namespace gdr::mem {

// A function of the emulated driver.
template <typename Function>
Function* symbol(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}

class GpuCacheTest : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(abi::choose_series()) << abi::why_not();
        device_.emplace(emulated_hca(0));
        pd_.reset(ibv_alloc_pd(device_->context()));
        ASSERT_TRUE(pd_);
        driver_ = cuda::driver();
        ASSERT_NE(driver_, nullptr) << cuda::unavailable_reason();
        context_.emplace(*driver_, 0);
        cache_.emplace(*device_, pd_.get(), true);
    }

    std::optional<verbs::Device> device_;
    verbs::ProtectionDomain pd_;
    const cuda::Driver* driver_ = nullptr;
    std::optional<cuda::PrimaryContext> context_;
    std::optional<Cache> cache_;
    Failure failure_;
};

} // namespace gdr::mem
