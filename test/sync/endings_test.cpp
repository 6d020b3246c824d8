// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Cancelling, failing, destroying, forking, exiting: no stream waits for ever.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

#include <csignal>
#include <cstdlib>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace synctest {
namespace {

using Endings = Sides;

TEST_F(Endings, CancelledBeforeTheStreamGetsThere)
{
    CUstream work = stream();
    int out = 1;
    ugdr_request_h request;
    Gate gate(work);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(out), 1, &param, &request));
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_EQ(ugdr_request_test(request), UCS_INPROGRESS);
    EXPECT_UCS(ugdr_request_cancel(request));
    EXPECT_EQ(ugdr_request_wait(request), UCS_ERR_CANCELED);
    EXPECT_UCS(ugdr_request_cancel(request));
    ugdr_request_free(request);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(counters(at_a_).posted, 0u);
    EXPECT_EQ(counters(at_a_).failed, 1u);
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_STATUS;
    EXPECT_UCS(ugdr_context_query(at_a_, &attr));
    EXPECT_EQ(attr.status, UCS_OK); // it was wished for
}

// The middle one of three; the others' places are kept.
TEST_F(Endings, CancelledInTheMiddle)
{
    CUstream work = stream();
    int out[4] = {0, 1, 2, 3}, in[3] = {-1, -1, -1};
    ugdr_request_h requests[4];
    Gate gate(work);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point);
    for (int i = 0; i < 3; ++i) {
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + i, sizeof(int), 1, &param, &requests[i]));
    }
    EXPECT_UCS(ugdr_request_cancel(requests[1]));
    EXPECT_EQ(ugdr_request_wait(requests[1]), UCS_ERR_CANCELED);
    EXPECT_UCS(ugdr_request_cancel(requests[2])); // the last one: another takes its place
    EXPECT_EQ(ugdr_request_wait(requests[2]), UCS_ERR_CANCELED);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + 3, sizeof(int), 1, &param, &requests[3]));
    for (int& word : in) {
        ASSERT_UCS(ugdr_tag_recv(at_b_, &word, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    gate.open();
    EXPECT_EQ(ugdr_request_wait(requests[0]), UCS_OK);
    EXPECT_EQ(ugdr_request_wait(requests[3]), UCS_OK);
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 2; }));
    EXPECT_EQ(in[0], 0);
    EXPECT_EQ(in[1], 3);
    for (ugdr_request_h request : requests) {
        ugdr_request_free(request);
    }
    EXPECT_UCS(ugdr_condition_destroy(point));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out, sizeof(int), 1, nullptr, nullptr));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 3; }));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 5; }));
}

TEST_F(Endings, AReceiveUnderWayIsCancelled)
{
    CUstream work = stream();
    int in = 0;
    ugdr_request_h request;
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 1, ~0ul, nullptr, &request));
    ASSERT_UCS(ugdr_stream_wait(at_b_, work, &request, 1));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_request_cancel(request));
    EXPECT_EQ(ugdr_request_wait(request), UCS_ERR_CANCELED);
    EXPECT_CUDA(cuStreamSynchronize(work));
    ugdr_request_free(request);
}

// The stream of the condition has been destroyed: nothing can wait, and nothing is left of what has
// begun.
TEST_F(Endings, AWaitThatCudaRefuses)
{
    if (SOFTCUDA(softcuda_calls) == nullptr) {
        GTEST_SKIP() << "the real driver need not know that";
    }
    CUstream work = stream();
    int in = 0;
    ugdr_condition_h point = point_of(at_b_, work);
    ASSERT_CUDA(cuStreamDestroy(work));
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_EQ(ugdr_tag_recv(at_b_, &in, sizeof(in), 1, ~0ul, &param, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(eventually([&] { return counters(at_b_).failed == 1; }));
    EXPECT_EQ(counters(at_b_).completed, 1u);
}

TEST_F(Endings, BusyWhileAStreamIsOnItsWay)
{
    CUstream work = stream();
    int out = 1, in = 0;
    Gate gate(work);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point);
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 1, ~0ul, nullptr, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(out), 1, &param, nullptr));
    EXPECT_EQ(ugdr_context_destroy(at_a_, 0), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_stream_release(at_a_, work), UCS_ERR_BUSY);
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 1; }));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 1; }));
    EXPECT_UCS(ugdr_condition_destroy(point));
}

// One operation that has not begun, one that UCP has, one function that never ends.
TEST_F(Endings, ForcedWhileStreamsWait)
{
    CUstream held = stream(), waiting = stream();
    int in = 0, out = 1;
    ugdr_request_h received, sent, called;
    Gate gate(held);
    ugdr_condition_h point = point_of(at_b_, held);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_send(at_b_, to_a_, &out, sizeof(out), 1, &param, &sent));
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 1, ~0ul, nullptr, &received));
    const auto never = [](void*) { return UCS_INPROGRESS; };
    ASSERT_UCS(ugdr_call(at_b_, never, never, nullptr, nullptr, &called));
    const ugdr_request_h both[] = {received, called};
    ASSERT_UCS(ugdr_stream_wait(at_b_, waiting, both, 2));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 2; }));
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    EXPECT_CUDA(cuStreamSynchronize(waiting));
    gate.open();
    EXPECT_CUDA(cuStreamSynchronize(held));
    for (ugdr_request_h request : {received, sent, called}) {
        EXPECT_EQ(ugdr_request_test(request), UCS_ERR_CANCELED);
        EXPECT_EQ(ugdr_request_wait(request), UCS_ERR_CANCELED);
        ugdr_request_free(request);
    }
    EXPECT_UCS(ugdr_condition_destroy(point));
}

// A sender whose receiver does not answer: UCP keeps the operation, and ends it later.
TEST_F(Endings, ForcedWhileUcpSends)
{
    constexpr size_t kSize = 4 << 20;
    CUstream work = stream();
    std::vector<char> out(kSize), in(kSize);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out.data(), kSize, 1, &param, nullptr));
    EXPECT_UCS(ugdr_condition_destroy(point));
    ASSERT_TRUE(eventually([&] { return counters(at_a_).posted == 1; }));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_UCS(ugdr_context_destroy(at_a_, UGDR_DESTROY_FORCE));
    at_a_ = nullptr;
    EXPECT_CUDA(cuStreamSynchronize(work));
    ucp_request_param_t plain{};
    complete({a_->worker, b_->worker},
             ucp_tag_recv_nbx(b_->worker, in.data(), kSize, 1, ~0ul, &plain));
    for (int i = 0; i < 1000; ++i) {
        ucp_worker_progress(a_->worker); // what UCP tells of it now is nobody's any more
    }
}

TEST_F(Endings, AFailureIsToldOnceAndStreamsGoOn)
{
    struct Told {
        std::atomic<int> times{0};
        std::atomic<int> status{UCS_OK};
    } told;
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_ERROR_CB;
    params.error_cb = [](void* told, ucs_status_t status, const char* what) {
        static_cast<Told*>(told)->status = status;
        ++static_cast<Told*>(told)->times;
        EXPECT_NE(std::string(what).find("ugdr_call"), std::string::npos);
    };
    params.error_arg = &told;
    ugdr_context_h context = create(params);
    CUstream work = stream();
    ugdr_condition_h point = point_of(context, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    for (const ugdr_call_cb_t bad : {ugdr_call_cb_t([](void*) { return UCS_ERR_IO_ERROR; }),
                                     ugdr_call_cb_t([](void*) { return UCS_ERR_NO_MEMORY; })}) {
        ASSERT_UCS(ugdr_call(context, bad, nullptr, nullptr, &param, nullptr));
    }
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(told.times, 1);
    EXPECT_EQ(told.status, UCS_ERR_IO_ERROR);
    EXPECT_EQ(counters(context).failed, 2u);
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_STATUS;
    EXPECT_UCS(ugdr_context_query(context, &attr));
    EXPECT_EQ(attr.status, UCS_ERR_IO_ERROR); // the first
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// A thread of CUDA's tells of the graph's end; who is told may destroy the context before that
// thread is out of the library. (The thread sanitizer sees it with a pause in Engine::submit().)
TEST_F(Endings, DestroyedWhileAnotherThreadTells)
{
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_PROGRESS;
    params.progress = UGDR_PROGRESS_CALLER;
    for (int i = 0; i < 50; ++i) {
        ugdr_context_h context = create(params);
        CUgraph graph = nullptr;
        ASSERT_CUDA(cuGraphCreate(&graph, 0));
        ugdr_condition_params_t in_graph{};
        in_graph.field_mask =
            UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
        in_graph.category = UGDR_CONDITION_GRAPH;
        in_graph.graph = graph;
        ugdr_condition_h condition = nullptr;
        ASSERT_UCS(ugdr_condition_create(context, &in_graph, &condition));
        ASSERT_UCS(ugdr_condition_destroy(condition));
        ASSERT_CUDA(cuGraphDestroy(graph));
        ASSERT_TRUE(eventually([&] {
            ugdr_progress(context);
            return ugdr_context_destroy(context, 0) == UCS_OK;
        }));
    }
}

TEST_F(Endings, AForkedChildHasNothing)
{
    int in = 0;
    ugdr_request_h request;
    CUstream work = stream();
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(in), 1, ~0ul, nullptr, &request));
    const pid_t child = fork();
    if (child == 0) {
        ugdr_condition_params_t params{};
        ugdr_condition_h condition;
        const bool right =
            ugdr_worker_flush(at_b_, nullptr, nullptr) == UCS_ERR_UNSUPPORTED &&
            ugdr_condition_create(at_b_, &params, &condition) == UCS_ERR_UNSUPPORTED &&
            ugdr_stream_wait_all(at_b_, work) == UCS_ERR_UNSUPPORTED &&
            ugdr_request_wait(request) == UCS_ERR_UNSUPPORTED &&
            ugdr_request_cancel(request) == UCS_ERR_UNSUPPORTED &&
            ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE) == UCS_ERR_UNSUPPORTED;
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    int out = 3;
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(out), 1, nullptr, nullptr));
    EXPECT_EQ(ugdr_request_wait(request), UCS_OK);
    EXPECT_EQ(in, 3);
    ugdr_request_free(request);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 1; }));
}

} // namespace
} // namespace synctest
