// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Several threads with one condition, one stream, one capture.
#include "fixture.hpp"

#include <algorithm>

namespace synctest {
namespace {

class Threads : public Persistent {
  protected:
    // Another thread of the same CUDA context.
    template <typename Body>
    std::thread thread(Body&& body)
    {
        return std::thread([this, body] {
            EXPECT_CUDA(cuCtxSetCurrent(context_));
            body();
        });
    }

    static ucs_status_t count(void* done)
    {
        ++*static_cast<std::atomic<int>*>(done);
        return UCS_OK;
    }

    // Adds to its count, at each run.
    ucs_status_t attach(ugdr_condition_h condition, std::atomic<int>& done, uint64_t flags = 0)
    {
        const ugdr_op_param_t param = on(condition, flags);
        return ugdr_call(at_a_, count, nullptr, &done, &param, nullptr);
    }
};

// What is attached belongs to one of the points, as a whole: each operation runs, and a stream that
// waits at one goes on.
TEST_F(Threads, AConditionIsRecordedAndAttachedTo)
{
    for (const uint64_t flags : {uint64_t{0}, uint64_t{UGDR_CONDITION_FLAG_WAIT}}) {
        constexpr int kTimes = 50000;
        CUstream ahead = stream(), behind = stream();
        for (int i = 0; i < kTimes; ++i) { // its points are none of the other's
            ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, ahead)));
        }
        ugdr_condition_h point = point_of(at_a_, ahead, UCS_OK, flags);
        std::atomic<bool> stopping{false};
        std::atomic<int> recorded{0}, done{0};
        std::thread recording = thread([&] {
            for (; !stopping; ++recorded) {
                EXPECT_UCS(ugdr_condition_record(point, recorded % 2 == 0 ? behind : ahead));
            }
        });
        int attached = 0;
        for (; attached < kTimes || recorded < kTimes / 10; ++attached) {
            EXPECT_UCS(attach(point, done));
        }
        stopping = true;
        recording.join();
        EXPECT_UCS(ugdr_condition_destroy(point));
        for (CUstream one : {ahead, behind}) {
            ASSERT_TRUE(eventually([&] { return cuStreamQuery(one) == CUDA_SUCCESS; }));
        }
        ASSERT_TRUE(eventually([&] { return done == attached; }));
    }
}

// A thread's own default stream is told to wait by that thread alone: the handle is another
// thread's stream there.
TEST_F(Threads, TheDefaultStreamOfEach)
{
    std::atomic<int> done{0};
    ugdr_condition_h point = nullptr;
    const auto refused = [&] {
        EXPECT_EQ(attach(point, done, UGDR_OP_FLAG_STREAM_WAIT), UCS_ERR_INVALID_PARAM);
    };
    thread([&] { point = point_of(at_a_, CU_STREAM_PER_THREAD); }).join();
    thread(refused).join(); // where the memory of the former thread is used again
    refused();
    EXPECT_UCS(attach(point, done));
    EXPECT_UCS(ugdr_condition_record(point, CU_STREAM_PER_THREAD));
    thread(refused).join();
    EXPECT_UCS(attach(point, done, UGDR_OP_FLAG_STREAM_WAIT));
    EXPECT_CUDA(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(done, 2);

    // Both in one capture.
    CUevent forked = nullptr, joined = nullptr;
    CUgraph graph = nullptr;
    size_t nodes = 0;
    ASSERT_CUDA(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    ASSERT_CUDA(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    ASSERT_CUDA(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_UCS(ugdr_condition_record(point, CU_STREAM_PER_THREAD));
    EXPECT_CUDA(cuEventRecord(forked, CU_STREAM_PER_THREAD));
    thread([&] {
        EXPECT_CUDA(cuStreamWaitEvent(CU_STREAM_PER_THREAD, forked, 0));
        refused();
        EXPECT_CUDA(cuEventRecord(joined, CU_STREAM_PER_THREAD));
    }).join();
    EXPECT_CUDA(cuStreamWaitEvent(CU_STREAM_PER_THREAD, joined, 0));
    EXPECT_UCS(attach(point, done, UGDR_OP_FLAG_STREAM_WAIT));
    EXPECT_CUDA(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 2u);
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_UCS(ugdr_condition_destroy(point));
}

// Waiting for all that a captured stream has is not for another thread's of the same handle.
TEST_F(Threads, TheDefaultStreamOfEachWaitsForAllOfItsOwn)
{
    std::atomic<bool> released{false};
    const auto start = [](void*) { return UCS_INPROGRESS; };
    const auto test = [](void* is_released) {
        return *static_cast<std::atomic<bool>*>(is_released) ? UCS_OK : UCS_INPROGRESS;
    };
    CUevent forked = nullptr, joined = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_CUDA(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    ASSERT_CUDA(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    ASSERT_CUDA(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    ugdr_condition_h point = point_of(at_a_, CU_STREAM_PER_THREAD);
    const ugdr_op_param_t param = on(point);
    EXPECT_UCS(ugdr_call(at_a_, start, test, &released, &param, nullptr));
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_CUDA(cuEventRecord(forked, CU_STREAM_PER_THREAD));
    thread([&] {
        EXPECT_CUDA(cuStreamWaitEvent(CU_STREAM_PER_THREAD, forked, 0));
        EXPECT_UCS(ugdr_stream_wait_all(at_a_, CU_STREAM_PER_THREAD));
        EXPECT_CUDA(cuEventRecord(joined, CU_STREAM_PER_THREAD));
    }).join();
    EXPECT_CUDA(cuStreamWaitEvent(CU_STREAM_PER_THREAD, joined, 0));
    ASSERT_CUDA(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    ASSERT_CUDA(cuGraphInstantiate(&executable, graph, 0));
    ASSERT_CUDA(cuGraphDestroy(graph));
    CUstream work = stream();
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    EXPECT_TRUE(eventually([&] { return cuStreamQuery(work) == CUDA_SUCCESS; }));
    released = true;
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_TRUE(eventually([&] { return counters(at_a_).completed == 1; }));
    ASSERT_CUDA(cuGraphExecDestroy(executable));
}

// A stream that is released while a condition is enqueued is known once all the same: operations
// start in the order of their points.
TEST_F(Threads, AStreamIsReleasedAndEnqueuedTo)
{
    constexpr int kOperations = 50000;
    CUstream work = stream();
    static std::vector<int> started;
    std::vector<int> numbers(kOperations);
    started.clear();
    std::atomic<bool> stopping{false};
    std::thread releasing = thread([&] {
        while (!stopping) {
            const ucs_status_t status = ugdr_stream_release(at_a_, work);
            EXPECT_TRUE(status == UCS_OK || status == UCS_ERR_BUSY);
        }
    });
    for (int i = 0; i < kOperations; ++i) {
        numbers[size_t(i)] = i;
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point);
        const auto start = [](void* number) {
            started.push_back(*static_cast<int*>(number));
            return UCS_OK;
        };
        EXPECT_UCS(ugdr_call(at_a_, start, nullptr, &numbers[size_t(i)], &param, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(point));
    }
    stopping = true;
    releasing.join();
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == kOperations; }));
    EXPECT_TRUE(std::is_sorted(started.begin(), started.end()));
}

// Through two contexts of the library: each adds behind what the other has added.
TEST_F(Threads, TwoContextsInOneCapture)
{
    constexpr int kCaptures = 50, kNodes = 200;
    for (int i = 0; i < kCaptures; ++i) {
        CUstream work = stream();
        CUgraph graph = nullptr;
        ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_RELAXED));
        std::atomic<int> ready{0};
        const auto add = [&](ugdr_context_h context) {
            for (++ready; ready < 2;) {
            }
            for (int node = 0; node < kNodes; ++node) {
                EXPECT_UCS(ugdr_condition_destroy(point_of(context, work)));
            }
        };
        std::thread other = thread([&] { add(at_a_); });
        add(at_b_);
        other.join();
        size_t nodes = 0, edges = 0;
        ASSERT_CUDA(cuStreamEndCapture(work, &graph));
        EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
#if CUDA_VERSION >= 13000
        EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
#else
        EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, &edges));
#endif
        EXPECT_EQ(nodes, 2u * kNodes);
        EXPECT_EQ(edges, nodes - 1);
        EXPECT_CUDA(cuGraphDestroy(graph));
        EXPECT_CUDA(cuStreamDestroy(work));
    }
}

} // namespace
} // namespace synctest
