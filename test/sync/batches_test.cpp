// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Trigger and wait in one: conditions of streams with UGDR_CONDITION_FLAG_WAIT, and nodes of
// graphs.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

namespace synctest {
namespace {

class Batches : public Persistent {
  protected:
    static ugdr_condition_h waiting_point(ugdr_context_h context, CUstream stream,
                                          uint64_t flags = UGDR_CONDITION_FLAG_WAIT,
                                          ucs_status_t expected = UCS_OK)
    {
        return point_of(context, stream, expected, flags);
    }

    void receive(ugdr_condition_h point, int* in, ucp_tag_t tag, ugdr_request_h* request = nullptr)
    {
        const ugdr_op_param_t param = on(point);
        EXPECT_UCS(ugdr_tag_recv(at_b_, in, sizeof(int), tag, ~0ul, &param, request));
    }
    void answer(const int* out, ucp_tag_t tag)
    {
        EXPECT_UCS(ugdr_tag_send(at_a_, to_b_, out, sizeof(int), tag, nullptr, nullptr));
        ++answers_;
    }
    void TearDown() override
    {
        EXPECT_TRUE(eventually([&] { return counters(at_a_).completed >= answers_; }));
        Persistent::TearDown();
    }

    static bool goes_on(CUstream stream)
    {
        return eventually([&] { return cuStreamQuery(stream) == CUDA_SUCCESS; });
    }
    static bool stands_still(CUstream stream)
    {
        std::this_thread::sleep_for(kLongEnough);
        return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    }

    // Of what is captured by this.
    template <typename Body>
    CUgraphExec captured(CUstream stream, size_t nodes, Body&& body)
    {
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        size_t count = 0;
        EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        body();
        EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
        EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &count));
        EXPECT_EQ(count, nodes);
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_CUDA(cuGraphDestroy(graph));
        return executable;
    }

    uint64_t answers_ = 0;
};

// Two operations of one point: the stream goes on when both are complete and nothing more can come.
TEST_F(Batches, AStreamWaitsForAllOfAPoint)
{
    CUstream work = stream();
    auto* in = pinned<int>(2);
    auto* copied = on_gpu<int>(2);
    const std::vector<int> out = {11, 22};
    in[0] = in[1] = 0;
    ugdr_condition_h point = waiting_point(at_b_, work);
    ASSERT_CUDA(cuMemcpyAsync(address_of(copied), address_of(in), 2 * sizeof(int), work));
    receive(point, &in[0], 0);
    answer(&out[0], 0);
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 1; }));
    EXPECT_TRUE(stands_still(work)); // more may come
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    receive(point, &in[1], 1);
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(stands_still(work)); // the second has not come
    answer(&out[1], 1);
    ASSERT_TRUE(goes_on(work));
    EXPECT_EQ(copy_of(copied, 2), out);
}

TEST_F(Batches, APointWithoutOperations)
{
    CUstream work = stream();
    ugdr_condition_h point = waiting_point(at_b_, work);
    EXPECT_TRUE(stands_still(work));
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(goes_on(work));
}

// Again and again, on two streams, with other waits between.
TEST_F(Batches, RecordedAgain)
{
    constexpr int kRounds = 100;
    CUstream streams[] = {stream(), stream()};
    auto* in = pinned<int>(2 * kRounds);
    std::vector<int> out(2 * kRounds);
    ugdr_condition_h point = waiting_point(at_b_, streams[0]);
    for (int i = 0; i < 2 * kRounds; ++i) {
        out[size_t(i)] = i + 1;
        in[i] = 0;
        if (i > 0) {
            ASSERT_UCS(ugdr_condition_record(point, streams[i % 2]));
        }
        receive(point, in + i, ucp_tag_t(i));
        if (i % 5 == 0) {
            ASSERT_UCS(ugdr_stream_wait_all(at_b_, streams[i % 2]));
        }
        answer(&out[size_t(i)], ucp_tag_t(i));
        if (i % 7 == 0) {
            ASSERT_UCS(ugdr_condition_record(point, streams[i % 2])); // the former is closed
            ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == unsigned(i + 1); }));
            EXPECT_EQ(in[i], i + 1);
        }
    }
    ASSERT_UCS(ugdr_condition_destroy(point));
    for (CUstream one : streams) {
        ASSERT_TRUE(goes_on(one));
    }
    EXPECT_EQ(counters(at_b_).completed, 2u * kRounds);
}

// A message each way, recorded in advance.
TEST_F(Batches, PingPong)
{
    constexpr int kRounds = 300;
    CUstream streams[] = {stream(), stream()};
    auto* words = pinned<int>(2 * kRounds);
    std::fill(words, words + 2 * kRounds, 0);
    std::vector<int> sent(kRounds);
    for (int i = 0; i < kRounds; ++i) {
        sent[size_t(i)] = i + 1;
        ugdr_condition_h ping = waiting_point(at_a_, streams[0]),
                         pong = waiting_point(at_b_, streams[1]);
        const ugdr_op_param_t at_ping = on(ping), at_pong = on(pong);
        EXPECT_UCS(
            ugdr_tag_send(at_a_, to_b_, &sent[size_t(i)], sizeof(int), 1, &at_ping, nullptr));
        EXPECT_UCS(ugdr_tag_recv(at_a_, words + 2 * i, sizeof(int), 1, ~0ul, &at_ping, nullptr));
        EXPECT_UCS(
            ugdr_tag_recv(at_b_, words + 2 * i + 1, sizeof(int), 1, ~0ul, &at_pong, nullptr));
        EXPECT_UCS(
            ugdr_tag_send(at_b_, to_a_, &sent[size_t(i)], sizeof(int), 1, &at_pong, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(ping));
        EXPECT_UCS(ugdr_condition_destroy(pong));
    }
    for (CUstream one : streams) {
        ASSERT_TRUE(goes_on(one));
    }
    for (int i = 0; i < 2 * kRounds; ++i) {
        ASSERT_EQ(words[i], i / 2 + 1);
    }
}

// One node, which triggers and ends when the operations have, at every launch.
TEST_F(Batches, Captured)
{
    constexpr int kLaunches = 50;
    CUstream work = stream();
    auto* in = pinned<int>(1);
    auto* copied = on_gpu<int>(1);
    ugdr_request_h received;
    CUgraphExec executable = captured(work, 2, [&] {
        ugdr_condition_h point = waiting_point(at_b_, work);
        ugdr_condition_attr_t attr{};
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
        EXPECT_UCS(ugdr_condition_query(point, &attr));
        EXPECT_NE(attr.trigger_node, nullptr);
        EXPECT_EQ(attr.trigger_node, attr.done_node);
        const ugdr_op_param_t waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_EQ(ugdr_worker_flush(at_b_, &waiting, nullptr), UCS_ERR_INVALID_PARAM);
        receive(point, in, 1, &received);
        EXPECT_UCS(ugdr_condition_destroy(point));
        EXPECT_CUDA(cuMemcpyAsync(address_of(copied), address_of(in), sizeof(int), work));
    });
    for (int i = 1; i <= kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        if (i % 10 == 0) {
            EXPECT_TRUE(stands_still(work));
        }
        answer(&i, 1);
        ASSERT_TRUE(goes_on(work));
        ASSERT_EQ(copy_of(copied, 1)[0], i);
        ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == unsigned(i); }));
    }
    // Launches ahead of the messages, none of which is lost.
    for (int i = 0; i < kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    std::vector<int> out(kLaunches);
    for (int i = 0; i < kLaunches; ++i) {
        out[size_t(i)] = 1000 + i;
        answer(&out[size_t(i)], 1);
    }
    ASSERT_TRUE(goes_on(work));
    EXPECT_EQ(counters(at_b_).completed, 2u * kLaunches);
    EXPECT_EQ(copy_of(copied, 1)[0], 1000 + kLaunches - 1);
    EXPECT_EQ(ugdr_request_test(received), UCS_OK);
    ugdr_request_free(received);
    EXPECT_CUDA(cuGraphExecDestroy(executable));
}

// What an exchange costs the GPU: memory operations, and of a stream calls.
TEST_F(Batches, MemoryOperationsOfAnExchange)
{
    const auto done = SOFTCUDA(softcuda_memops);
    const auto calls = SOFTCUDA(softcuda_call_count);
    if (done == nullptr) {
        GTEST_SKIP() << "the real driver does not count them";
    }
    CUstream work = stream();
    const auto nothing = [](void*) { return UCS_OK; };
    const auto attach = [&](ugdr_condition_h point, uint64_t flags = 0) {
        const ugdr_op_param_t param = on(point, flags);
        EXPECT_UCS(ugdr_call(at_a_, nothing, nullptr, nullptr, &param, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(point));
    };
    const auto in_one = [&] { attach(waiting_point(at_a_, work)); };
    const auto in_two = [&] { attach(point_of(at_a_, work), UGDR_OP_FLAG_STREAM_WAIT); };
    const auto all_calls = [&] {
        return calls("cuStreamWriteValue64") + calls("cuStreamWaitValue64") +
               calls("cuStreamBatchMemOp");
    };
    in_one(); // the stream is known afterwards
    ASSERT_TRUE(goes_on(work));
    uint64_t calls_before = all_calls(), before = done();
    in_one();
    ASSERT_TRUE(goes_on(work));
    EXPECT_EQ(all_calls() - calls_before, 1u);
    EXPECT_EQ(done() - before, 2u);
    calls_before = all_calls(), before = done();
    in_two();
    ASSERT_TRUE(goes_on(work));
    EXPECT_EQ(all_calls() - calls_before, 2u);
    EXPECT_EQ(done() - before, 2u);

    const auto explicitly = [&](uint64_t flags) {
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        EXPECT_CUDA(cuGraphCreate(&graph, 0));
        ugdr_condition_h point = add_condition(at_a_, graph, {}, flags);
        attach(point);
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_CUDA(cuGraphDestroy(graph));
        return executable;
    };
    const struct {
        CUgraphExec executable;
        uint64_t memops;
    } graphs[] = {{captured(work, 1, in_one), 2},
                  {captured(work, 2, in_two), 4},
                  {explicitly(0), 2},
                  {explicitly(UGDR_CONDITION_FLAG_SPLIT), 4}};
    for (const auto& graph : graphs) {
        for (int launch = 0; launch < 3; ++launch) {
            before = done();
            ASSERT_CUDA(cuGraphLaunch(graph.executable, work));
            ASSERT_TRUE(goes_on(work));
            EXPECT_EQ(done() - before, graph.memops);
        }
        EXPECT_CUDA(cuGraphExecDestroy(graph.executable));
    }
}

// Before the stream gets there, and when it stands there.
TEST_F(Batches, Cancelled)
{
    CUstream work = stream();
    int in[3] = {0, 0, 0};
    const int out = 5;
    ugdr_request_h requests[3];
    Gate gate(work);
    ugdr_condition_h point = waiting_point(at_b_, work);
    for (int i = 0; i < 3; ++i) {
        receive(point, &in[i], ucp_tag_t(i), &requests[i]);
    }
    EXPECT_UCS(ugdr_request_cancel(requests[0]));
    EXPECT_EQ(ugdr_request_wait(requests[0]), UCS_ERR_CANCELED);
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 2; }));
    EXPECT_UCS(ugdr_request_cancel(requests[1]));
    EXPECT_EQ(ugdr_request_wait(requests[1]), UCS_ERR_CANCELED);
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(stands_still(work));
    answer(&out, 2);
    EXPECT_TRUE(goes_on(work));
    EXPECT_EQ(in[2], out);
    for (ugdr_request_h request : requests) {
        ugdr_request_free(request);
    }
}

TEST_F(Batches, CancelledInAGraph)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    ugdr_request_h received;
    CUgraphExec executable = captured(work, 1, [&] {
        ugdr_condition_h point = waiting_point(at_b_, work);
        receive(point, in, 1, &received);
        EXPECT_UCS(ugdr_condition_destroy(point));
    });
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    EXPECT_TRUE(stands_still(work));
    EXPECT_UCS(ugdr_request_cancel(received));
    ASSERT_TRUE(goes_on(work));
    for (int i = 0; i < 3; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work)); // nothing to wait for
    }
    ASSERT_TRUE(goes_on(work));
    EXPECT_EQ(counters(at_b_).posted, 1u);
    ugdr_request_free(received);
    EXPECT_CUDA(cuGraphExecDestroy(executable));
}

// Nobody says that no more is attached: by force alone. One whose operation is under way, one
// without any, one that the stream does not reach.
TEST_F(Batches, NeverDestroyed)
{
    CUstream streams[] = {stream(), stream(), stream()};
    int in[2];
    ugdr_request_h requests[2];
    Gate gate(streams[2]);
    ugdr_condition_h points[3];
    for (int i = 0; i < 3; ++i) {
        points[i] = waiting_point(at_b_, streams[i]);
    }
    receive(points[0], &in[0], 1, &requests[0]);
    receive(points[2], &in[1], 1, &requests[1]);
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    for (CUstream one : streams) {
        EXPECT_TRUE(stands_still(one));
    }
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    EXPECT_TRUE(goes_on(streams[0]));
    EXPECT_TRUE(goes_on(streams[1]));
    gate.open();
    EXPECT_TRUE(goes_on(streams[2]));
    for (ugdr_request_h request : requests) {
        EXPECT_EQ(ugdr_request_test(request), UCS_ERR_CANCELED);
        ugdr_request_free(request);
    }
    for (ugdr_condition_h point : points) {
        EXPECT_UCS(ugdr_condition_destroy(point)); // after the context
    }
}

TEST_F(Batches, ForcedWhileAGraphWaits)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    CUgraphExec executable = captured(work, 1, [&] {
        ugdr_condition_h point = waiting_point(at_b_, work);
        receive(point, in, 1);
        EXPECT_UCS(ugdr_condition_destroy(point));
    });
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    ASSERT_TRUE(goes_on(work));
    for (int i = 0; i < 3; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_TRUE(goes_on(work));
    EXPECT_CUDA(cuGraphExecDestroy(executable));
}

TEST_F(Batches, WhatIsRefused)
{
    CUstream work = stream();
    waiting_point(at_b_, work, UGDR_CONDITION_FLAG_SPLIT, UCS_ERR_INVALID_PARAM);
    waiting_point(at_b_, work, UGDR_CONDITION_FLAG_WAIT | 1u << 20, UCS_ERR_INVALID_PARAM);
    ugdr_condition_h point = waiting_point(at_b_, work);
    const ugdr_op_param_t waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_EQ(ugdr_worker_flush(at_b_, &waiting, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(goes_on(work));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    add_condition(at_b_, graph, {}, UGDR_CONDITION_FLAG_WAIT, UCS_ERR_INVALID_PARAM);
    ASSERT_CUDA(cuGraphDestroy(graph));
}

} // namespace
} // namespace synctest
