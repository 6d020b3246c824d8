// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The order of operations, of waits, and what they cost in calls of CUDA.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

#include <algorithm>
#include <cstdlib>

namespace synctest {
namespace {

using Order = Sides;

uint64_t memops()
{
    const auto count = SOFTCUDA(softcuda_call_count);
    return count("cuStreamWriteValue64") + count("cuStreamWaitValue64") +
           count("cuStreamBatchMemOp");
}

// MPI's rule: messages of one stream do not overtake each other.
TEST_F(Order, SendsOfOneStreamArriveAsEnqueued)
{
    constexpr int kMessages = 1000;
    CUstream work = stream();
    auto* out = pinned<int>(kMessages);
    auto* in = pinned<int>(kMessages);
    Gate gate(work);
    for (int i = 0; i < kMessages; ++i) {
        out[i] = i;
        in[i] = -1;
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + i, sizeof(int), 1, &param, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(point));
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    ASSERT_UCS(ugdr_stream_wait_all(at_a_, work));
    EXPECT_EQ(counters(at_a_).posted, 0u);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == kMessages; }));
    for (int i = 0; i < kMessages; ++i) {
        ASSERT_EQ(in[i], i);
    }
}

// Attached to an earlier point after a later one has got its own.
TEST_F(Order, AnEarlierPointsOperationsStartFirst)
{
    CUstream work = stream();
    auto* out = pinned<int>(3);
    auto* in = pinned<int>(3);
    Gate gate(work);
    ugdr_condition_h first = point_of(at_a_, work), second = point_of(at_a_, work);
    for (int i = 0; i < 3; ++i) {
        out[i] = i;
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    const ugdr_op_param_t at_first = on(first), at_second = on(second);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 2, sizeof(int), 1, &at_second, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 0, sizeof(int), 1, &at_first, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 1, sizeof(int), 1, &at_first, nullptr));
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 3; }));
    EXPECT_EQ(in[0], 0);
    EXPECT_EQ(in[1], 1);
    EXPECT_EQ(in[2], 2);
    // The point has been reached: at once.
    ASSERT_UCS(ugdr_tag_recv(at_b_, in, sizeof(int), 1, ~0ul, nullptr, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 2, sizeof(int), 1, &at_first, nullptr));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 4; }));
    EXPECT_EQ(in[0], 2);
    EXPECT_UCS(ugdr_condition_destroy(first));
    EXPECT_UCS(ugdr_condition_destroy(second));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 4; }));
}

// Both are armed when the first point is reached.
TEST_F(Order, ALaterPointsOperationsDoNotStartWithAnEarlierOnes)
{
    CUstream work = stream();
    auto* out = pinned<int>(2);
    auto* in = pinned<int>(2);
    Gate gate(work);
    ugdr_condition_h first = point_of(at_a_, work);
    Gate second_gate(work);
    ugdr_condition_h second = point_of(at_a_, work);
    for (int i = 0; i < 2; ++i) {
        out[i] = i + 1;
        in[i] = 0;
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    const ugdr_op_param_t at_first = on(first), at_second = on(second);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 0, sizeof(int), 1, &at_first, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 1, sizeof(int), 1, &at_second, nullptr));
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed >= 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(counters(at_a_).triggered, 1u);
    second_gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 2; }));
    EXPECT_EQ(in[0], 1);
    EXPECT_EQ(in[1], 2);
    EXPECT_UCS(ugdr_condition_destroy(first));
    EXPECT_UCS(ugdr_condition_destroy(second));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 2; }));
}

TEST_F(Order, StreamsDoNotWaitForEachOther)
{
    CUstream held = stream(), free = stream();
    auto* out = pinned<int>(2);
    auto* in = pinned<int>(2);
    Gate gate(held);
    ugdr_condition_h first = point_of(at_a_, held), second = point_of(at_a_, free);
    const ugdr_op_param_t on_held = on(first), on_free = on(second, UGDR_OP_FLAG_STREAM_WAIT);
    out[0] = 1, out[1] = 2;
    in[0] = in[1] = 0;
    ASSERT_UCS(ugdr_tag_recv(at_b_, in, sizeof(int), 1, ~0ul, nullptr, nullptr));
    ASSERT_UCS(ugdr_tag_recv(at_b_, in + 1, sizeof(int), 2, ~0ul, nullptr, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out, sizeof(int), 1, &on_held, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 1, sizeof(int), 2, &on_free, nullptr));
    ASSERT_CUDA(cuStreamSynchronize(free));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 1; }));
    EXPECT_EQ(in[1], 2);
    EXPECT_EQ(counters(at_a_).posted, 1u);
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 2; }));
    EXPECT_EQ(in[0], 1);
    EXPECT_UCS(ugdr_condition_destroy(first));
    EXPECT_UCS(ugdr_condition_destroy(second));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 2; }));
}

// Waits of one stream whose operations end in another order: none lets the stream pass too early.
TEST_F(Order, AWaitIsOverNotBeforeItsOwnOperations)
{
    CUstream work = stream();
    auto* in = pinned<int>(2);
    auto* out = pinned<int>(2);
    auto* copied = on_gpu<int>(2);
    out[0] = 11, out[1] = 22;
    in[0] = in[1] = 0;
    ugdr_request_h receives[2];
    for (int i = 0; i < 2; ++i) {
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), i, ~0ul, nullptr, &receives[i]));
        ASSERT_UCS(ugdr_stream_wait(at_b_, work, &receives[i], 1));
        ASSERT_CUDA(cuMemcpyAsync(address_of(copied + i), address_of(in + i), sizeof(int), work));
    }
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 1, sizeof(int), 1, nullptr, nullptr));
    EXPECT_EQ(ugdr_request_wait(receives[1]), UCS_OK);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(ugdr_request_test(receives[0]), UCS_INPROGRESS);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out, sizeof(int), 0, nullptr, nullptr));
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(copied, 2), (std::vector<int>{11, 22}));
    ugdr_request_free(receives[0]);
    ugdr_request_free(receives[1]);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 2; }));
}

// One memory operation for the point, one for the wait.
TEST_F(Order, AHundredOperationsCostTwoCalls)
{
    if (SOFTCUDA(softcuda_call_count) == nullptr) {
        GTEST_SKIP() << "the real driver does not count its calls";
    }
    constexpr int kMessages = 100;
    CUstream work = stream();
    auto* out = pinned<int>(kMessages);
    auto* in = pinned<int>(kMessages);
    ugdr_request_h requests[kMessages];
    const auto send_all = [&] {
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point);
        for (int i = 0; i < kMessages; ++i) {
            EXPECT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), i, ~0ul, nullptr, nullptr));
            EXPECT_UCS(ugdr_tag_send(at_a_, to_b_, out + i, sizeof(int), i, &param, &requests[i]));
        }
        EXPECT_UCS(ugdr_stream_wait(at_a_, work, requests, kMessages));
        EXPECT_UCS(ugdr_condition_destroy(point));
        for (ugdr_request_h request : requests) {
            ugdr_request_free(request);
        }
    };
    send_all(); // the stream is known afterwards
    ASSERT_CUDA(cuStreamSynchronize(work));
    const uint64_t before = memops();
    send_all();
    EXPECT_EQ(memops() - before, 2u);
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(counters(at_a_).completed, 2u * kMessages);
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 2 * kMessages; }));
}

// The application's callback is called always, once, in the library's thread, with the tag.
TEST_F(Order, CallbacksAreCalledAlsoWhereUcpCompletesAtOnce)
{
    struct Seen {
        std::atomic<int> sends{0}, receives{0};
        ucp_tag_t tag = 0;
        size_t length = 0;
    } seen;
    int out = 5, in = 0;
    ucp_tag_recv_info_t info{};
    ucp_request_param_t send{}, receive{};
    send.op_attr_mask = receive.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    send.user_data = receive.user_data = &seen;
    send.cb.send = [](void*, ucs_status_t status, void* user_data) {
        EXPECT_UCS(status);
        ++static_cast<Seen*>(user_data)->sends;
    };
    receive.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    receive.recv_info.tag_info = &info;
    receive.cb.recv = [](void*, ucs_status_t status, const ucp_tag_recv_info_t* found,
                         void* user_data) {
        EXPECT_UCS(status);
        auto& here = *static_cast<Seen*>(user_data);
        here.tag = found->sender_tag;
        here.length = found->length;
        ++here.receives;
    };
    ugdr_op_param_t of_send{}, of_receive{};
    of_send.field_mask = of_receive.field_mask = UGDR_OP_PARAM_FIELD_UCP;
    of_send.ucp = &send;
    of_receive.ucp = &receive;
    for (int round = 1; round <= 2; ++round) { // the receive first, the message first
        ugdr_request_h sent, received;
        if (round == 1) {
            ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 0, 0, &of_receive, &received));
        }
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(out), 77, &of_send, &sent));
        EXPECT_EQ(ugdr_request_wait(sent), UCS_OK);
        if (round == 2) {
            std::this_thread::sleep_for(kLongEnough);
            ucp_worker_progress(b_->worker); // it is there when it is asked for
            ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 0, 0, &of_receive, &received));
        }
        EXPECT_EQ(ugdr_request_wait(received), UCS_OK);
        EXPECT_EQ(seen.sends, round);
        EXPECT_EQ(seen.receives, round);
        EXPECT_EQ(seen.tag, 77u);
        EXPECT_EQ(seen.length, sizeof(int));
        EXPECT_EQ(info.sender_tag, 77u);
        EXPECT_EQ(info.length, sizeof(int));
        ugdr_request_free(sent);
        ugdr_request_free(received);
    }
}

// Threads that enqueue to streams of their own at the same time.
TEST_F(Order, ManyThreads)
{
    constexpr int kThreads = 4, kMessages = 250;
    auto* out = pinned<int>(kThreads * kMessages);
    auto* in = pinned<int>(kThreads * kMessages);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            EXPECT_CUDA(cuCtxSetCurrent(context_));
            CUstream work = stream();
            for (int i = t * kMessages; i < (t + 1) * kMessages; ++i) {
                out[i] = i;
                EXPECT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), t, ~0ul, nullptr, nullptr));
                ugdr_condition_h point = point_of(at_a_, work);
                const ugdr_op_param_t param = on(point, i % 5 == 0 ? UGDR_OP_FLAG_STREAM_WAIT : 0);
                EXPECT_UCS(ugdr_tag_send(at_a_, to_b_, out + i, sizeof(int), t, &param, nullptr));
                EXPECT_UCS(ugdr_condition_destroy(point));
            }
            EXPECT_UCS(ugdr_stream_wait_all(at_a_, work));
            EXPECT_CUDA(cuStreamSynchronize(work));
            EXPECT_CUDA(cuStreamDestroy(work));
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == kThreads * kMessages; }));
    for (int i = 0; i < kThreads * kMessages; ++i) {
        ASSERT_EQ(in[i], i);
    }
}

// More than a GPU ever has hardware queues: those that are too many are counted, and stuck only
// until others have gone on. All contexts of the library share the queues, and a stream that waits
// in two of them, as every third here, holds one.
TEST_F(Order, MoreWaitingStreamsThanHardwareQueues)
{
    constexpr int kStreams = 64;
    const char* configured = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const int queues = configured != nullptr ? std::atoi(configured) : 8;
    const struct {
        ugdr_context_h receiver, sender;
        ucp_ep_h ep;
    } ways[] = {{at_b_, at_a_, to_b_}, {at_a_, at_b_, to_a_}};
    std::vector<CUstream> streams;
    auto* in = pinned<int>(2 * kStreams);
    auto* out = pinned<int>(2 * kStreams);
    auto* arrived = on_gpu<int>(2 * kStreams);
    std::vector<int> expected(2 * kStreams), messages;
    for (int i = 0; i < kStreams; ++i) {
        streams.push_back(stream());
        messages.push_back(2 * i + i % 2);
        if (i % 3 == 0) {
            messages.push_back(2 * i + 1 - i % 2);
        }
    }
    for (int i : messages) {
        CUstream work = streams[static_cast<size_t>(i / 2)];
        ugdr_context_h receiver = ways[i % 2].receiver;
        const uint64_t before = counters(receiver).crowded_waits;
        expected[static_cast<size_t>(i)] = out[i] = 100 + i;
        ugdr_request_h request;
        ASSERT_UCS(ugdr_tag_recv(receiver, in + i, sizeof(int), static_cast<ucp_tag_t>(i), ~0ul,
                                 nullptr, &request));
        ASSERT_UCS(ugdr_stream_wait(receiver, work, &request, 1));
        EXPECT_EQ(counters(receiver).crowded_waits - before, i / 2 < queues ? 0u : 1u) << i;
        ASSERT_CUDA(cuMemcpyAsync(address_of(arrived + i), address_of(in + i), sizeof(int), work));
        ugdr_request_free(request);
    }
    std::reverse(messages.begin(), messages.end());
    for (int i : messages) {
        ASSERT_UCS(ugdr_tag_send(ways[i % 2].sender, ways[i % 2].ep, out + i, sizeof(int),
                                 static_cast<ucp_tag_t>(i), nullptr, nullptr));
    }
    for (CUstream work : streams) {
        ASSERT_CUDA(cuStreamSynchronize(work));
    }
    EXPECT_EQ(copy_of(arrived, 2 * kStreams), expected);
    for (ugdr_context_h context : {at_a_, at_b_}) {
        ASSERT_TRUE(eventually([&] { return counters(context).completed == messages.size(); }));
    }
}

// Streams that come and go, with handles that are used again.
TEST_F(Order, StreamsThatAreDestroyed)
{
    for (int i = 0; i < 300; ++i) {
        int out = i, in = -1;
        CUstream work = stream();
        ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, nullptr, nullptr));
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, &param, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(point));
        ASSERT_CUDA(cuStreamSynchronize(work));
        if (i % 2 == 0) {
            EXPECT_UCS(ugdr_stream_release(at_a_, work));
        }
        ASSERT_CUDA(cuStreamDestroy(work));
        ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == i + 1u; }));
        ASSERT_EQ(in, i);
    }
}

} // namespace
} // namespace synctest
