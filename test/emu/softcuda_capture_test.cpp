// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: capture of streams, and whose calls it prohibits in which mode. To be run on NVIDIA's
// driver as well.
#include "softcuda_graph_fixture.hpp"

namespace {

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

class SoftcudaCapture : public SoftcudaGraphs {
  protected:
    void SetUp() override
    {
        SoftcudaGraphs::SetUp();
        ASSERT_CUDA(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    }

    CUstreamCaptureStatus status() { return status_of(stream_); }
    static CUstreamCaptureStatus status_of(CUstream stream)
    {
        CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
        EXPECT_CUDA(cuStreamIsCapturing(stream, &now));
        return now;
    }

    // What the stream is given next comes behind what the other one was given.
    CUresult follow(CUstream stream, CUstream leader)
    {
        EXPECT_CUDA(cuEventRecord(event_, leader));
        return cuStreamWaitEvent(stream, event_, 0);
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

    CUevent event_ = nullptr;
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
        [&] { return cuMemcpy(memory_, memory_ + 64, 16); },
        [&] { return cuMemsetD8(memory_, 0, 16); },
    };
    const std::function<CUresult()> unsafe[] = {
        [&] { return cuEventQuery(event); },
        [&] { return cuEventSynchronize(event); },
        [&] { return cuStreamQuery(other); },
        [&] { return cuStreamSynchronize(other); },
        [&] { return cuCtxSynchronize(); },
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
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(elsewhere(kGlobal, [&] { return cuStreamEndCapture(stream_, &graph); }));
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaCapture, WhatWasCapturedRunsWhenLaunched)
{
    std::atomic<int> calls{0};
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kGlobal));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 2, 16, stream_));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 64, memory_, 16, stream_));
    EXPECT_CUDA(cuStreamWaitValue64(stream_, address_of(words_), 1, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA(cuStreamWriteValue64(stream_, address_of(words_ + 1), 5, 0));
    EXPECT_CUDA(cuLaunchHostFunc(
        stream_, [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &calls));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 5u);
    const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                     CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                     CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_HOST};
    for (size_t i = 0; i < nodes.size(); ++i) {
        EXPECT_EQ(type_of(nodes[i]), types[i]);
        EXPECT_EQ(dependencies_of(nodes[i]), i > 0 ? Nodes{nodes[i - 1]} : Nodes{});
    }
    EXPECT_EQ(contents(memory_, 16), std::vector<unsigned char>(16, 0));
    CUgraphExec executable = instantiate(graph);
    for (int launch = 1; launch <= 3; ++launch) {
        store(0, 0);
        store(1, 0);
        EXPECT_CUDA(cuGraphLaunch(executable, stream_));
        a_while();
        EXPECT_EQ(load(1), 0u);
        store(0, 1);
        EXPECT_CUDA(cuStreamSynchronize(stream_));
        EXPECT_EQ(load(1), 5u);
        EXPECT_EQ(calls, launch);
        EXPECT_EQ(contents(memory_ + 64, 16), std::vector<unsigned char>(16, 2));
        EXPECT_CUDA(cuMemsetD8(memory_, 0, 128));
    }
}

TEST_F(SoftcudaCapture, StreamsJoinByEvents)
{
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 1, 16, stream_));
    EXPECT_EQ(status_of(other_), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_CUDA(follow(other_, stream_));
    EXPECT_EQ(status_of(other_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 64, memory_, 16, other_));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 128, memory_, 16, stream_));
    EXPECT_CUDA(follow(stream_, other_));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 192, memory_ + 64, 16, stream_));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
    EXPECT_EQ(status_of(other_), CU_STREAM_CAPTURE_STATUS_NONE);
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 4u); // events are none
    EXPECT_EQ(dependencies_of(nodes[1]), Nodes{nodes[0]});
    EXPECT_EQ(dependencies_of(nodes[2]), Nodes{nodes[0]});
    EXPECT_EQ(dependencies_of(nodes[3]).size(), 2u);
    launch_and_wait(instantiate(graph));
    EXPECT_EQ(contents(memory_ + 192, 16), std::vector<unsigned char>(16, 1));
}

TEST_F(SoftcudaCapture, NoStreamMayBeLeftOutAtTheEnd)
{
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(follow(other_, stream_));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 1, 16, other_));
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(status_of(other_), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(SoftcudaCapture, KeepsToItself)
{
    // An event from outside.
    EXPECT_CUDA(cuEventRecord(event_, other_));
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_invalidated();
    // Another capture.
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    ASSERT_CUDA(cuStreamBeginCapture(other_, kRelaxed));
    EXPECT_EQ(follow(other_, stream_), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    EXPECT_EQ(status_of(other_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_invalidated();
    // The legacy stream, which cannot be captured.
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_EQ(follow(nullptr, stream_), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_invalidated();
}

TEST_F(SoftcudaCapture, ExternalEventsAreNodes)
{
    CUevent outside = nullptr;
    ASSERT_CUDA(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
    EXPECT_CUDA(cuEventRecord(outside, other_));
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(cuStreamWaitEvent(stream_, outside, CU_EVENT_WAIT_EXTERNAL));
    EXPECT_CUDA(cuEventRecordWithFlags(event_, stream_, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    EXPECT_EQ(type_of(nodes[1]), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    CUgraphExec executable = instantiate(graph);
    EXPECT_CUDA(cuStreamWaitValue64(other_, address_of(words_), 1, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA(cuEventRecord(outside, other_));
    EXPECT_CUDA(cuGraphLaunch(executable, stream_));
    a_while();
    EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
    store(0, 1);
    EXPECT_CUDA(cuEventSynchronize(event_));
    EXPECT_CUDA(cuStreamSynchronize(other_));
}

#if CUDA_VERSION >= 13000
// How a library puts nodes of its own into somebody's capture.
TEST_F(SoftcudaCapture, TakesNodesAddedByHand)
{
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kGlobal));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 1, 16, stream_));
    CUstreamCaptureStatus now;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    size_t count = 0;
    ASSERT_CUDA(
        cuStreamGetCaptureInfo(stream_, &now, nullptr, &graph, &dependencies, &edges, &count));
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(type_of(dependencies[0]), CU_GRAPH_NODE_TYPE_MEMSET);
    CUgraphNode node = add_batch(graph, {write(0, 1)}, Nodes(dependencies, dependencies + count));
    EXPECT_CUDA(cuStreamUpdateCaptureDependencies(stream_, &node, nullptr, 1,
                                                  CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 64, memory_, 16, stream_));
    CUgraph captured = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &captured));
    EXPECT_EQ(captured, graph);
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 3u);
    EXPECT_EQ(dependencies_of(nodes[2]), Nodes{node});
    launch_and_wait(instantiate(graph));
    EXPECT_EQ(load(0), 1u);
    EXPECT_EQ(contents(memory_ + 64, 16), std::vector<unsigned char>(16, 1));
    EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, &node, nullptr, 1,
                                                CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
              CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(SoftcudaCapture, GoesIntoAGraphThatIsThere)
{
    CUgraph graph = new_graph(), captured = nullptr;
    CUgraphNode first = add_memset(graph, memory_, 6, 16);
    ASSERT_CUDA(cuStreamBeginCaptureToGraph(stream_, graph, &first, nullptr, 1, kRelaxed));
    EXPECT_CUDA(cuMemcpyAsync(memory_ + 64, memory_, 16, stream_));
    ASSERT_CUDA(cuStreamEndCapture(stream_, &captured));
    EXPECT_EQ(captured, graph);
    EXPECT_EQ(dependencies_of(nodes_of(graph).back()), Nodes{first});
    launch_and_wait(instantiate(graph));
    EXPECT_EQ(contents(memory_ + 64, 16), std::vector<unsigned char>(16, 6));
    EXPECT_CUDA(cuGraphDestroy(graph));
}
#endif

TEST_F(SoftcudaCapture, IsEndedInTheStreamWhereItBegan)
{
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(follow(other_, stream_));
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_invalidated();
}

TEST_F(SoftcudaCapture, EndsWithItsStream)
{
    CUstream stream = nullptr;
    ASSERT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuStreamBeginCapture(stream, kGlobal));
    EXPECT_CUDA(cuStreamDestroy(stream));
    EXPECT_CUDA(elsewhere(kGlobal, allocate_and_free));
}

TEST_F(SoftcudaCapture, TakesNoLaunchOfAnExecutable)
{
    CUgraph inner = new_graph();
    add_copy(inner, memory_ + 64, memory_, 16);
    CUgraphExec executable = instantiate(inner);
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_EQ(cuGraphLaunch(executable, stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_invalidated();
}

TEST_F(SoftcudaCapture, PageableMemoryIsReadWhenTheGraphRuns)
{
    std::vector<unsigned char> source(16, 1);
    ASSERT_CUDA(cuStreamBeginCapture(stream_, kRelaxed));
    EXPECT_CUDA(cuMemcpyHtoDAsync(memory_, source.data(), 16, stream_));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
    source.assign(16, 2);
    launch_and_wait(instantiate(graph));
    EXPECT_EQ(contents(memory_, 16), source);
}
