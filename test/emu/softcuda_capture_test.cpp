// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: capture of streams, and whose calls it prohibits in which mode.
#include "softcuda_fixture.hpp"

#include <functional>
#include <thread>

namespace {

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

class SoftcudaCapture : public Softcuda {
  protected:
    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        memory_ = allocate(4096);
    }

    CUstreamCaptureStatus status()
    {
        CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
        EXPECT_CUDA(cuStreamIsCapturing(stream_, &now));
        return now;
    }

    // Ends the capture; the number of nodes that it has.
    size_t end()
    {
        CUgraph graph = nullptr;
        EXPECT_CUDA(cuStreamEndCapture(stream_, &graph));
        size_t nodes = 0;
        EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
        EXPECT_CUDA(cuGraphDestroy(graph));
        return nodes;
    }
    void expect_invalidated()
    {
        EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        CUgraph graph = nullptr;
        EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT_EQ(graph, nullptr);
        EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_NONE);
    }

    // A call's result, in this thread or in another one of the given mode.
    static CUresult here(CUstreamCaptureMode mode, const std::function<CUresult()>& call)
    {
        EXPECT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
        CUresult result = call();
        EXPECT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
        return result;
    }
    CUresult elsewhere(CUstreamCaptureMode mode, const std::function<CUresult()>& call)
    {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            EXPECT_CUDA(cuCtxSetCurrent(context_));
            result = here(mode, call);
        }).join();
        return result;
    }

    CUstream stream_ = nullptr;
    CUdeviceptr memory_ = 0;
};

CUresult allocate_and_free()
{
    CUdeviceptr memory = 0;
    CUresult result = cuMemAlloc(&memory, 64);
    return result == CUDA_SUCCESS ? cuMemFree(memory) : result;
}

} // namespace

TEST_F(SoftcudaCapture, OperationsAreRecordedAndNotRun)
{
    EXPECT_CUDA(cuMemsetD8(memory_, 1, 16));
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kGlobal));
    EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CUDA(cuMemsetD8Async(memory_, 2, 16, stream_));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 64, memory_, 16, stream_));
    EXPECT_EQ(end(), 2u);
    EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(contents(memory_, 16), std::vector<unsigned char>(16, 1));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 3, 16, stream_));
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(contents(memory_, 16), std::vector<unsigned char>(16, 3));
}

TEST_F(SoftcudaCapture, TellsAboutTheCaptureUnderWay)
{
    CUstreamCaptureStatus now;
    cuuint64_t first = 0, second = 0;
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_EQ(cuStreamBeginCapture(stream_, kRelaxed), CUDA_ERROR_ILLEGAL_STATE);
    void* get_info = nullptr;
    ASSERT_CUDA(find_entry_point("cuStreamGetCaptureInfo", &get_info, 11030));
    auto info = reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*,
                                              CUgraph*, const CUgraphNode**, size_t*)>(get_info);
    EXPECT_CUDA(info(stream_, &now, &first, &graph, nullptr, nullptr));
    EXPECT_EQ(now, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_NE(graph, nullptr);
    end();
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(info(stream_, &now, &second, nullptr, nullptr, nullptr));
    EXPECT_NE(first, second);
    end();
    EXPECT_CUDA(info(stream_, &now, nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(now, CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(cuStreamBeginCapture(nullptr, kRelaxed), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

// CUDA's rules for potentially unsafe calls, as documented of cuThreadExchangeStreamCaptureMode.
TEST_F(SoftcudaCapture, ProhibitsUnsafeCallsByTheModesOfCaptureAndThread)
{
    for (CUstreamCaptureMode capture : {kGlobal, kThreadLocal, kRelaxed}) {
        for (CUstreamCaptureMode thread : {kGlobal, kThreadLocal, kRelaxed}) {
            SCOPED_TRACE(testing::Message() << "capture " << capture << ", thread " << thread);
            ASSERT_CUDA(cuStreamBeginCapture(stream_, capture));
            if (capture == kGlobal && thread == kGlobal) {
                EXPECT_EQ(elsewhere(thread, allocate_and_free),
                          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                expect_invalidated();
            } else {
                EXPECT_CUDA(elsewhere(thread, allocate_and_free));
                end();
            }
            ASSERT_CUDA(cuStreamBeginCapture(stream_, capture));
            if (capture != kRelaxed && thread != kRelaxed) {
                EXPECT_EQ(here(thread, allocate_and_free), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                expect_invalidated();
            } else {
                EXPECT_CUDA(here(thread, allocate_and_free));
                end();
            }
        }
    }
}

TEST_F(SoftcudaCapture, KnowsWhichCallsAreUnsafe)
{
    CUevent event = nullptr;
    ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream other = nullptr;
    ASSERT_CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    static char page[4096];
    const std::function<CUresult()> safe[] = {
        [&] { return cuEventRecord(event, other); },
        [&] {
            CUstream created = nullptr;
            return cuStreamCreate(&created, CU_STREAM_NON_BLOCKING);
        },
        [&] {
            unsigned long long id = 0;
            void* value = &id;
            CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
            return cuPointerGetAttributes(1, &attribute, &value, memory_);
        },
        [&] { return cuMemcpyAsync(memory_, memory_ + 64, 16, other); },
    };
    const std::function<CUresult()> unsafe[] = {
        [&] { return cuEventQuery(event); },
        [&] { return cuEventSynchronize(event); },
        [&] { return cuStreamQuery(other); },
        [&] { return cuStreamSynchronize(other); },
        [&] { return cuCtxSynchronize(); },
        [&] { return cuMemcpy(memory_, memory_ + 64, 16); },
        [&] { return cuMemsetD8(memory_, 0, 16); },
        [&] {
            void* pointer = nullptr;
            return cuMemHostAlloc(&pointer, 64, 0);
        },
        [&] { return cuMemHostRegister(page, sizeof(page), 0); },
        [&] {
            unsigned on = 1;
            return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory_);
        },
    };
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kGlobal));
    for (const auto& call : safe) {
        EXPECT_CUDA(elsewhere(kGlobal, call));
    }
    EXPECT_EQ(end(), 0u);
    for (const auto& call : unsafe) {
        SCOPED_TRACE(&call - unsafe);
        ASSERT_CUDA(cuStreamBeginCapture(stream_, kGlobal));
        EXPECT_EQ(elsewhere(kGlobal, call), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_invalidated();
    }
}

TEST_F(SoftcudaCapture, RefusesWhatConflictsInEveryMode)
{
    CUevent event = nullptr;
    ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(cuEventRecord(event, stream_));
    EXPECT_EQ(here(kRelaxed, [&] { return cuEventQuery(event); }), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_EQ(cuMemsetD8Async(memory_, 0, 16, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_invalidated();
    for (const std::function<CUresult()>& call : {
             std::function<CUresult()>([&] { return cuStreamSynchronize(stream_); }),
             std::function<CUresult()>([&] { return cuStreamQuery(stream_); }),
             std::function<CUresult()>([&] { return cuStreamDestroy(stream_); }),
             std::function<CUresult()>([&] { return cuCtxSynchronize(); }),
         }) {
        ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
        EXPECT_EQ(here(kRelaxed, call), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_invalidated();
    }
}

TEST_F(SoftcudaCapture, TheLegacyStreamWaitsForNoCapture)
{
    CUstream blocking = nullptr;
    ASSERT_CUDA(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    std::swap(stream_, blocking);
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_EQ(cuMemsetD8Async(memory_, 0, 16, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_invalidated();
}

TEST_F(SoftcudaCapture, IsEndedByTheThreadThatBeganIt)
{
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kThreadLocal));
    CUgraph graph = nullptr;
    EXPECT_EQ(elsewhere(kGlobal, [&] { return cuStreamEndCapture(stream_, &graph); }),
              CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    end();
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(elsewhere(kGlobal, [&] { return cuStreamEndCapture(stream_, &graph); }));
    EXPECT_CUDA(cuGraphDestroy(graph));
}
