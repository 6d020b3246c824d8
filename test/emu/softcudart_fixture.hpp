// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of the CUDA runtime on softcuda share. The runtime begins by itself, so there is
// nothing to set up; what a test leaves ends with the device's context.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

// Each file has its own: what cudaMemcpy and others are depends on how a file is compiled.
namespace {

using Bytes = std::vector<unsigned char>;

class Softcudart : public testing::Test {
  protected:
    void TearDown() override
    {
        for (int device : {1, 0}) {
            EXPECT_CUDA(cudaSetDevice(device));
            EXPECT_CUDA(cudaDeviceReset());
        }
        cudaGetLastError();
    }

    static unsigned char* allocate(size_t size)
    {
        void* memory = nullptr;
        EXPECT_CUDA(cudaMalloc(&memory, size));
        return static_cast<unsigned char*>(memory);
    }

    static Bytes pattern(size_t size)
    {
        Bytes bytes(size);
        std::iota(bytes.begin(), bytes.end(), 1);
        return bytes;
    }

    static Bytes contents(const void* memory, size_t size)
    {
        Bytes bytes(size);
        EXPECT_CUDA(cudaMemcpy(bytes.data(), memory, size, cudaMemcpyDeviceToHost));
        return bytes;
    }
};

// Holds back a stream until it is opened.
class Gate {
  public:
    void close(cudaStream_t stream)
    {
        const auto wait = [](void* gate) { static_cast<Gate*>(gate)->open_.wait(false); };
        EXPECT_CUDA(cudaLaunchHostFunc(stream, wait, this));
    }
    void open()
    {
        open_ = true;
        open_.notify_all();
    }

  private:
    std::atomic<bool> open_{false};
};

} // namespace
