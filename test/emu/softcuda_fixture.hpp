// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A thread with the primary context of device 0 current, and buffers of the emulated driver.
#pragma once

#include "emu/softcuda/softcuda.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)

class Softcuda : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_CUDA(cuInit(0));
        ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
        ASSERT_CUDA(cuCtxSetCurrent(context_));
    }

    // All that a test has left in the context ends with it.
    void TearDown() override
    {
        CUcontext ignored;
        while (cuCtxPopCurrent(&ignored) == CUDA_SUCCESS) {
        }
        EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    }

    CUdeviceptr allocate(size_t size)
    {
        CUdeviceptr memory = 0;
        EXPECT_CUDA(cuMemAlloc(&memory, size));
        return memory;
    }

    template <typename Value>
    Value attribute(CUpointer_attribute which, CUdeviceptr address)
    {
        Value value{};
        EXPECT_CUDA(cuPointerGetAttribute(&value, which, address));
        return value;
    }

    CUresult attribute_error(CUpointer_attribute which, CUdeviceptr address)
    {
        uint64_t value = 0;
        return cuPointerGetAttribute(&value, which, address);
    }

    static std::vector<unsigned char> pattern(size_t size, unsigned char first = 1)
    {
        std::vector<unsigned char> bytes(size);
        std::iota(bytes.begin(), bytes.end(), first);
        return bytes;
    }

    std::vector<unsigned char> contents(CUdeviceptr memory, size_t size)
    {
        std::vector<unsigned char> bytes(size);
        EXPECT_CUDA(cuMemcpyDtoH(bytes.data(), memory, size));
        return bytes;
    }

    CUcontext context_ = nullptr;
};

inline void* pointer(CUdeviceptr address)
{
    return reinterpret_cast<void*>(address);
}
inline CUdeviceptr address_of(const void* p)
{
    return reinterpret_cast<CUdeviceptr>(p);
}

// cuGetProcAddress has one argument more since CUDA 12.
inline CUresult find_entry_point(const char* name, void** function, int version,
                                 cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT)
{
#if CUDA_VERSION >= 12000
    return cuGetProcAddress(name, function, version, flags, nullptr);
#else
    return cuGetProcAddress(name, function, version, flags);
#endif
}
