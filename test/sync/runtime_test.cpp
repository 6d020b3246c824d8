// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Programs of the CUDA runtime: its streams, its captures, its graphs. SYNC_CUDART: the library,
// whose major version is that of the headers.
#include "fixture.hpp"

#if __has_include(<cuda_runtime_api.h>)

#include <cuda_runtime_api.h>

#include <cstdlib>

namespace synctest {
namespace {

// Found at run time: the program is linked with no libcudart.
#define RUNTIME(function) reinterpret_cast<decltype(&(function))>(dlsym(library_, #function))
#define EXPECT_RUNTIME(function, ...) EXPECT_EQ(RUNTIME(function)(__VA_ARGS__), cudaSuccess)

class Runtime : public Persistent, public testing::WithParamInterface<cudaStreamCaptureMode> {
  protected:
    void SetUp() override
    {
        const char* name = std::getenv("SYNC_CUDART");
        const bool named = name != nullptr && *name != '\0'; // dlopen("") is the program
        library_ = named ? dlopen(name, RTLD_NOW) : nullptr;
        if (library_ == nullptr) {
            GTEST_SKIP() << "no CUDA runtime: " << (named ? dlerror() : "SYNC_CUDART is not set");
        }
        Persistent::SetUp();
        EXPECT_RUNTIME(cudaSetDevice, 0);
    }
    void TearDown() override
    {
        if (library_ != nullptr) {
            Persistent::TearDown();
        }
    }

    cudaStream_t create_stream()
    {
        cudaStream_t made = nullptr;
        EXPECT_RUNTIME(cudaStreamCreateWithFlags, &made, cudaStreamNonBlocking);
        return made;
    }

    // Of what enqueue() enqueues.
    cudaGraphExec_t capture(cudaStream_t stream, const std::function<void()>& enqueue)
    {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        EXPECT_RUNTIME(cudaStreamBeginCapture, stream, GetParam());
        enqueue();
        EXPECT_RUNTIME(cudaStreamEndCapture, stream, &graph);
        EXPECT_RUNTIME(cudaGraphInstantiateWithFlags, &executable, graph, 0);
        EXPECT_RUNTIME(cudaGraphDestroy, graph);
        return executable;
    }

    void* library_ = nullptr;
};

// A send between two copies: what it sends is what the first has written at this launch.
TEST_P(Runtime, CapturedSendsAndReceives)
{
    constexpr int kLaunches = 20;
    const cudaStream_t sender = create_stream(), receiver = create_stream();
    auto* source = pinned<int>(1);
    auto* result = pinned<int>(1);
    int *out = nullptr, *in = nullptr;
    EXPECT_RUNTIME(cudaMalloc, reinterpret_cast<void**>(&out), sizeof(int));
    EXPECT_RUNTIME(cudaMalloc, reinterpret_cast<void**>(&in), sizeof(int));
    const cudaGraphExec_t sending = capture(sender, [&] {
        EXPECT_RUNTIME(cudaMemcpyAsync, out, source, sizeof(int), cudaMemcpyHostToDevice, sender);
        send(at_a_, to_b_, sender, out, sizeof(int));
        EXPECT_RUNTIME(cudaMemsetAsync, out, 0xff, sizeof(int), sender);
    });
    const cudaGraphExec_t receiving = capture(receiver, [&] {
        receive(at_b_, receiver, in, sizeof(int));
        EXPECT_RUNTIME(cudaMemcpyAsync, result, in, sizeof(int), cudaMemcpyDeviceToHost, receiver);
    });
    for (int launch = 1; launch <= kLaunches; ++launch) {
        *source = launch;
        EXPECT_RUNTIME(cudaGraphLaunch, receiving, receiver);
        EXPECT_RUNTIME(cudaGraphLaunch, sending, sender);
        EXPECT_RUNTIME(cudaStreamSynchronize, receiver);
        EXPECT_RUNTIME(cudaStreamSynchronize, sender);
        ASSERT_EQ(*result, launch);
    }
    EXPECT_EQ(counters(at_b_).completed, unsigned(kLaunches));
    EXPECT_RUNTIME(cudaGraphExecDestroy, sending);
    EXPECT_RUNTIME(cudaGraphExecDestroy, receiving);
}

// Into the capture of a second stream, by events, and back.
TEST_P(Runtime, OfAStreamThatJoinsTheCapture)
{
    constexpr int kLaunches = 5;
    const cudaStream_t main = create_stream(), beside = create_stream();
    auto* words = pinned<int>(2); // sent, received
    auto* seen = on_gpu<int>(1);  // behind both
    cudaEvent_t forked = nullptr, joined = nullptr;
    EXPECT_RUNTIME(cudaEventCreateWithFlags, &forked, cudaEventDisableTiming);
    EXPECT_RUNTIME(cudaEventCreateWithFlags, &joined, cudaEventDisableTiming);
    const cudaGraphExec_t executable = capture(main, [&] {
        EXPECT_RUNTIME(cudaEventRecord, forked, main);
        EXPECT_RUNTIME(cudaStreamWaitEvent, beside, forked, 0);
        send(at_a_, to_b_, beside, words, sizeof(int));
        receive(at_b_, main, words + 1, sizeof(int));
        EXPECT_RUNTIME(cudaEventRecord, joined, beside);
        EXPECT_RUNTIME(cudaStreamWaitEvent, main, joined, 0);
        EXPECT_RUNTIME(cudaMemcpyAsync, seen, words + 1, sizeof(int), cudaMemcpyHostToDevice, main);
    });
    for (int launch = 1; launch <= kLaunches; ++launch) {
        words[0] = launch;
        EXPECT_RUNTIME(cudaGraphLaunch, executable, main);
        EXPECT_RUNTIME(cudaStreamSynchronize, main);
        ASSERT_EQ(copy_of(seen, 1)[0], launch);
    }
    EXPECT_RUNTIME(cudaGraphExecDestroy, executable);
}

INSTANTIATE_TEST_SUITE_P(Modes, Runtime,
                         testing::Values(cudaStreamCaptureModeGlobal,
                                         cudaStreamCaptureModeThreadLocal,
                                         cudaStreamCaptureModeRelaxed));

} // namespace
} // namespace synctest

#endif
