// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA runtime on softcuda, for programs compiled for per-thread default streams.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "softcudart_fixture.hpp"

#include <thread>

using SoftcudartPerThread = Softcudart;

TEST_F(SoftcudartPerThread, TheDefaultStreamIsTheThreadsOwn)
{
    unsigned char* memory = allocate(4);
    ASSERT_CUDA(cudaMemset(memory, 1, 4));
    Gate gate;
    gate.close(nullptr);
    ASSERT_CUDA(cudaMemsetAsync(memory, 2, 4, nullptr));
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    std::thread([&] {
        EXPECT_CUDA(cudaStreamQuery(nullptr));
        EXPECT_EQ(contents(memory, 4), Bytes(4, 1)); // does not wait for the other thread's
    }).join();
    gate.open();
    EXPECT_EQ(contents(memory, 4), Bytes(4, 2));
    EXPECT_CUDA(cudaStreamQuery(nullptr));
}
