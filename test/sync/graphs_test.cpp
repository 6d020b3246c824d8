// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations in graphs, added and captured: at every launch once, in order, and with an end.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

#include <cstdlib>
#include <cstring>

namespace synctest {
namespace {

class Graphs : public Persistent {
  protected:
    CUgraph graph()
    {
        CUgraph made = nullptr;
        EXPECT_CUDA(cuGraphCreate(&made, 0));
        return made;
    }

    CUgraphExec instantiate(CUgraph graph)
    {
        CUgraphExec made = nullptr;
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&made, graph, 0));
        return made;
    }

    static ugdr_condition_attr_t nodes_of(ugdr_condition_h condition)
    {
        ugdr_condition_attr_t attr{};
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
        EXPECT_UCS(ugdr_condition_query(condition, &attr));
        return attr;
    }

    CUgraphNode add_copy(CUgraph graph, void* to, const void* from, size_t bytes,
                         const std::vector<CUgraphNode>& dependencies)
    {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        copy.srcDevice = address_of(from);
        copy.dstDevice = address_of(to);
        copy.WidthInBytes = bytes;
        copy.Height = copy.Depth = 1;
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddMemcpyNode(&node, graph, dependencies.data(), dependencies.size(),
                                         &copy, context_));
        return node;
    }

    // A node that runs a function.
    CUgraphNode add_function(CUgraph graph, const std::function<void()>* function,
                             const std::vector<CUgraphNode>& dependencies)
    {
        CUDA_HOST_NODE_PARAMS host{};
        host.fn = [](void* function) { (*static_cast<std::function<void()>*>(function))(); };
        host.userData = const_cast<std::function<void()>*>(function);
        CUgraphNode node = nullptr;
        EXPECT_CUDA(
            cuGraphAddHostNode(&node, graph, dependencies.data(), dependencies.size(), &host));
        return node;
    }
    static void enqueue(CUstream stream, const std::function<void()>* function)
    {
        EXPECT_CUDA(cuLaunchHostFunc(
            stream, [](void* function) { (*static_cast<std::function<void()>*>(function))(); },
            const_cast<std::function<void()>*>(function)));
    }

    void begin(CUstream stream)
    {
        EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    }
    CUgraph end(CUstream stream)
    {
        CUgraph captured = nullptr;
        EXPECT_CUDA(cuStreamEndCapture(stream, &captured));
        return captured;
    }

    void follow_one_another(int launches, int points);

    void destroy(CUgraph graph) { EXPECT_CUDA(cuGraphDestroy(graph)); }
    void destroy(CUgraphExec executable) { EXPECT_CUDA(cuGraphExecDestroy(executable)); }
};

// The node's predecessors have run, its successors have not, at every launch; the data is what the
// graph wrote last.
TEST_F(Graphs, AConditionHoldsOnceAtEveryLaunch)
{
    constexpr int kLaunches = 50;
    CUstream work = stream();
    auto* out = pinned<int>(1);
    auto* in = pinned<int>(kLaunches);
    *out = 0;
    CUgraph made = graph();
    const std::function<void()> produce = [out] { ++*out; };
    std::atomic<int> late{0};
    const std::function<void()> consume = [&] {
        late += counters(at_a_).completed < static_cast<uint64_t>(*out);
    };
    CUgraphNode producer = add_function(made, &produce, {});
    ugdr_condition_h point = add_condition(at_a_, made, {producer});
    const ugdr_condition_attr_t nodes = nodes_of(point);
    EXPECT_EQ(nodes.trigger_node, nodes.done_node);
    add_function(made, &consume, {nodes.done_node});
    const ugdr_op_param_t param = on(point);
    ugdr_request_h sent;
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out, sizeof(int), 1, &param, &sent));
    ASSERT_UCS(ugdr_condition_destroy(point));
    for (int i = 0; i < kLaunches; ++i) {
        in[i] = 0;
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    CUgraphExec executable = instantiate(made);
    destroy(made);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(ugdr_request_test(sent), UCS_INPROGRESS);
    EXPECT_EQ(counters(at_a_).triggered, 0u);
    for (int i = 0; i < kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(late, 0);
    EXPECT_EQ(ugdr_request_wait(sent), UCS_OK);
    EXPECT_EQ(counters(at_a_).triggered, static_cast<uint64_t>(kLaunches));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == kLaunches; }));
    for (int i = 0; i < kLaunches; ++i) {
        ASSERT_EQ(in[i], i + 1);
    }
    EXPECT_EQ(ugdr_context_destroy(at_a_, 0), UCS_ERR_BUSY); // the executable holds it
    destroy(executable);
    ASSERT_TRUE(eventually([&] { return ugdr_context_destroy(at_a_, 0) == UCS_OK; }));
    at_a_ = nullptr;
    EXPECT_EQ(ugdr_request_test(sent), UCS_OK); // of its last run
    ugdr_request_free(sent);
}

// What lies between the two nodes of a split condition runs while the operation is under way.
TEST_F(Graphs, SplitToOverlap)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    auto* copied = on_gpu<int>(1);
    int out = 7;
    CUgraph made = graph();
    ugdr_condition_h point = add_condition(at_b_, made, {}, UGDR_CONDITION_FLAG_SPLIT);
    const ugdr_condition_attr_t nodes = nodes_of(point);
    ASSERT_NE(nodes.trigger_node, nodes.done_node);
    std::atomic<int> between{0};
    const std::function<void()> compute = [&] { ++between; };
    add_function(made, &compute, {nodes.trigger_node});
    add_copy(made, copied, in, sizeof(int), {nodes.done_node});
    const ugdr_op_param_t param = on(point);
    ASSERT_UCS(ugdr_tag_recv(at_b_, in, sizeof(int), 1, ~0ul, &param, nullptr));
    const ugdr_op_param_t waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_EQ(ugdr_worker_flush(at_b_, &waiting, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_condition_record(point, work), UCS_ERR_INVALID_PARAM);
    ASSERT_UCS(ugdr_condition_destroy(point));
    CUgraphExec executable = instantiate(made);
    for (int i = 1; i <= 3; ++i, ++out) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        ASSERT_TRUE(eventually([&] { return between == i; }));
        std::this_thread::sleep_for(kLongEnough);
        EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(copy_of(copied, 1)[0], out);
        ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == unsigned(i); }));
    }
    destroy(executable);
    destroy(made);
}

// The broadcast of the proposal: receive from the parent, then send to two children, as three
// nodes of a graph. Here parent and children are the other side.
TEST_F(Graphs, Broadcast)
{
    constexpr size_t kSize = 70000;
    CUstream work = stream();
    auto* buffer = pinned<char>(kSize);
    std::vector<char> out(kSize), left(kSize), right(kSize);
    CUgraph made = graph();
    ugdr_condition_h receive = add_condition(at_b_, made);
    ugdr_condition_h to_left = add_condition(at_b_, made), to_right = add_condition(at_b_, made);
    const CUgraphNode from[] = {nodes_of(receive).done_node, nodes_of(receive).done_node};
    const CUgraphNode to[] = {nodes_of(to_left).trigger_node, nodes_of(to_right).trigger_node};
#if CUDA_VERSION >= 13000
    ASSERT_CUDA(cuGraphAddDependencies(made, from, to, nullptr, 2));
#else
    ASSERT_CUDA(cuGraphAddDependencies(made, from, to, 2));
#endif
    const ugdr_op_param_t at_receive = on(receive), at_left = on(to_left), at_right = on(to_right);
    ASSERT_UCS(ugdr_tag_recv(at_b_, buffer, kSize, 1, ~0ul, &at_receive, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_b_, to_a_, buffer, kSize, 2, &at_left, nullptr));
    ASSERT_UCS(ugdr_tag_send(at_b_, to_a_, buffer, kSize, 3, &at_right, nullptr));
    for (ugdr_condition_h condition : {receive, to_left, to_right}) {
        ASSERT_UCS(ugdr_condition_destroy(condition));
    }
    CUgraphExec executable = instantiate(made);
    for (int round = 1; round <= 20; ++round) {
        std::memset(out.data(), round, kSize);
        ugdr_request_h requests[2];
        ASSERT_UCS(ugdr_tag_recv(at_a_, left.data(), kSize, 2, ~0ul, nullptr, &requests[0]));
        ASSERT_UCS(ugdr_tag_recv(at_a_, right.data(), kSize, 3, ~0ul, nullptr, &requests[1]));
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        ugdr_request_h sent;
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out.data(), kSize, 1, nullptr, &sent));
        ASSERT_CUDA(cuStreamSynchronize(work));
        for (ugdr_request_h request : {requests[0], requests[1], sent}) {
            EXPECT_EQ(ugdr_request_wait(request), UCS_OK);
            ugdr_request_free(request);
        }
        ASSERT_EQ(left, out);
        ASSERT_EQ(right, out);
    }
    destroy(executable);
    destroy(made);
}

// A ping-pong of both sides in one captured graph each, launched many times ahead of the GPU.
TEST_F(Graphs, CapturedPingPong)
{
    constexpr int kLaunches = 500;
    auto* words = pinned<int>(4); // out and in of each side
    std::memset(words, 0, 4 * sizeof(int));
    std::atomic<int> wrong{0};
    const std::function<void()> count = [&] { ++words[0]; };
    const std::function<void()> answer = [&] { words[2] = -words[3]; };
    const std::function<void()> look = [&] { wrong += words[1] != -words[0]; };
    CUstream streams[] = {stream(), stream()};
    begin(streams[0]);
    enqueue(streams[0], &count);
    send(at_a_, to_b_, streams[0], words, sizeof(int), 0);
    receive(at_a_, streams[0], words + 1, sizeof(int));
    enqueue(streams[0], &look);
    CUgraph ping = end(streams[0]);
    begin(streams[1]);
    receive(at_b_, streams[1], words + 3, sizeof(int));
    enqueue(streams[1], &answer);
    send(at_b_, to_a_, streams[1], words + 2, sizeof(int));
    CUgraph pong = end(streams[1]);
    CUgraphExec executables[] = {instantiate(ping), instantiate(pong)};
    destroy(ping);
    destroy(pong);
    for (int i = 0; i < kLaunches; ++i) {
        for (int side : {0, 1}) {
            ASSERT_CUDA(cuGraphLaunch(executables[side], streams[side]));
        }
    }
    for (CUstream one : streams) {
        ASSERT_CUDA(cuStreamSynchronize(one));
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(words[0], kLaunches);
    EXPECT_EQ(counters(at_a_).completed, 2u * kLaunches);
    for (CUgraphExec executable : executables) {
        destroy(executable);
    }
}

// No wait: a launch that comes before the operations of the last are complete waits at the
// condition, and none is lost; nor is the order, within a launch and from one to the next.
void Graphs::follow_one_another(int launches, int points)
{
    CUstream work = stream();
    struct Call {
        std::vector<int>* order;
        int number;
    };
    std::vector<int> order;
    std::vector<Call> calls(points);
    begin(work);
    for (int i = 0; i < points; ++i) {
        calls[i] = {&order, i};
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point);
        ASSERT_UCS(ugdr_call(
            at_a_,
            [](void* call) {
                static_cast<Call*>(call)->order->push_back(static_cast<Call*>(call)->number);
                return UCS_OK;
            },
            nullptr, &calls[i], &param, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(point));
    }
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    destroy(captured);
    for (int i = 0; i < launches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    const size_t all = size_t(launches) * points;
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == all; }));
    ASSERT_EQ(order.size(), all);
    for (size_t i = 0; i < all; ++i) {
        ASSERT_EQ(order[i], int(i % points));
    }
    destroy(executable);
}

TEST_F(Graphs, LaunchesFollowOneAnother)
{
    follow_one_another(50, 200);
}

TEST_F(Graphs, TenThousandLaunchesFollowOneAnother)
{
    follow_one_another(10'000, 1);
}

// One launch stands at the condition until the receive of the one before is complete.
TEST_F(Graphs, ALaunchThatComesTooEarlyWaits)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    int out = 1;
    begin(work);
    ugdr_request_h received;
    receive(at_b_, work, in, sizeof(int), 0, &received);
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    ASSERT_CUDA(cuStreamSynchronize(work)); // triggers, and waits for nothing
    ASSERT_TRUE(eventually([&] { return counters(at_b_).triggered == 1; }));
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(counters(at_b_).triggered, 1u);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
    ASSERT_CUDA(cuStreamSynchronize(work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).triggered == 2; }));
    // The graph and its executable go while the operation is under way: it comes to its end.
    destroy(executable);
    destroy(captured);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(ugdr_request_test(received), UCS_INPROGRESS);
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
    EXPECT_EQ(ugdr_request_wait(received), UCS_OK);
    ugdr_request_free(received);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 2; }));
}

// Waits for some, for all; requests of another capture and others that are under way are refused,
// complete ones need no wait.
TEST_F(Graphs, WaitsInACapture)
{
    constexpr int kMessages = 100;
    CUstream work = stream(), other = stream();
    auto* in = pinned<int>(kMessages);
    auto* copied = on_gpu<int>(kMessages);
    std::vector<int> out(kMessages);
    ugdr_request_h requests[kMessages], foreign, under_way, complete;
    int unused[2];
    ASSERT_UCS(ugdr_tag_recv(at_b_, unused, sizeof(int), 1000, ~0ul, nullptr, &under_way));
    ASSERT_UCS(ugdr_worker_flush(at_b_, nullptr, &complete));
    EXPECT_EQ(ugdr_request_wait(complete), UCS_OK);
    begin(other);
    receive(at_b_, other, unused + 1, sizeof(int), UGDR_OP_FLAG_STREAM_WAIT, &foreign);
    begin(work);
    ugdr_condition_h point = point_of(at_b_, work);
    const ugdr_op_param_t param = on(point);
    for (int i = 0; i < kMessages; ++i) {
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), i, ~0ul, &param, &requests[i]));
    }
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_EQ(ugdr_stream_wait(at_b_, work, &foreign, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_wait(at_b_, work, &under_way, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_stream_wait(at_b_, work, &complete, 1));
    EXPECT_UCS(ugdr_stream_wait(at_b_, work, requests, kMessages));
    ASSERT_CUDA(cuMemcpyAsync(address_of(copied), address_of(in), kMessages * sizeof(int), work));
    EXPECT_UCS(ugdr_stream_wait_all(at_b_, work));
    CUgraph captured = end(work);
    destroy(end(other));
    EXPECT_EQ(ugdr_stream_wait(at_b_, work, requests, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_request_wait(foreign), UCS_ERR_CANCELED); // the graph is gone
    size_t count = 0;
    ASSERT_CUDA(cuGraphGetNodes(captured, nullptr, &count));
    EXPECT_EQ(count, 5u); // a trigger, three waits, the copy
    CUgraphExec executable = instantiate(captured);
    destroy(captured);
    for (int round = 1; round <= 20; ++round) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        for (int i = 0; i < kMessages; ++i) {
            out[i] = round * 1000 + i;
            ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out[i], sizeof(int), i, nullptr, nullptr));
        }
        ASSERT_CUDA(cuStreamSynchronize(work));
        ASSERT_EQ(copy_of(copied, kMessages), out);
        ASSERT_TRUE(
            eventually([&] { return counters(at_a_).completed == unsigned(round * kMessages); }));
    }
    EXPECT_UCS(ugdr_request_cancel(under_way));
    EXPECT_EQ(ugdr_request_wait(under_way), UCS_ERR_CANCELED);
    for (ugdr_request_h request : requests) {
        ugdr_request_free(request);
    }
    for (ugdr_request_h request : {foreign, under_way, complete}) {
        ugdr_request_free(request);
    }
    destroy(executable);
}

// Nothing of ours spoils a capture in the mode of frameworks, an invalidated one is refused, and
// what belonged to it ends.
TEST_F(Graphs, ACaptureThatFails)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    begin(work);
    ugdr_request_h received;
    receive(at_b_, work, in, sizeof(int), UGDR_OP_FLAG_STREAM_WAIT, &received);
    EXPECT_EQ(cuStreamSynchronize(work), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    point_of(at_b_, work, UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_wait_all(at_b_, work), UCS_ERR_INVALID_PARAM);
    CUgraph captured = nullptr;
    EXPECT_EQ(cuStreamEndCapture(work, &captured), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(ugdr_request_wait(received), UCS_ERR_CANCELED);
    ugdr_request_free(received);
}

// Clones and executables hold a condition; the last one to go ends it.
TEST_F(Graphs, ClonesHoldConditions)
{
    CUstream work = stream();
    CUgraph made = graph(), clone = nullptr;
    std::atomic<int> calls{0};
    const auto count = [](void* calls) {
        ++*static_cast<std::atomic<int>*>(calls);
        return UCS_OK;
    };
    ugdr_condition_h point = add_condition(at_a_, made);
    const ugdr_op_param_t param = on(point);
    ugdr_request_h called, late;
    ASSERT_UCS(ugdr_call(at_a_, count, nullptr, &calls, &param, &called));
    ASSERT_CUDA(cuGraphClone(&clone, made));
    CUgraphExec first = instantiate(made);
    destroy(made);
    CUgraphExec second = instantiate(clone);
    for (int i = 0; i < 10; ++i) {
        ASSERT_CUDA(cuGraphLaunch(first, work));
        ASSERT_CUDA(cuGraphLaunch(second, work));
    }
    destroy(first); // with launches on their way
    destroy(second);
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(calls, 20);
    EXPECT_EQ(ugdr_context_destroy(at_a_, 0), UCS_ERR_BUSY);
    destroy(clone);
    ASSERT_TRUE(eventually([&] {
        // Attached to a condition that has come to its end.
        EXPECT_UCS(ugdr_call(at_a_, count, nullptr, &calls, &param, &late));
        std::this_thread::sleep_for(1ms);
        const bool ended = ugdr_request_test(late) == UCS_ERR_CANCELED;
        ugdr_request_free(late);
        return ended;
    }));
    EXPECT_EQ(ugdr_request_test(called), UCS_OK);
    ugdr_request_free(called);
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_EQ(calls, 20);
}

// Cancelled between launches and while under way: it takes part no more, and waits end.
TEST_F(Graphs, Cancelled)
{
    CUstream work = stream();
    auto* in = pinned<int>(2);
    int out = 1;
    ugdr_request_h first, second;
    begin(work);
    receive(at_b_, work, in, sizeof(int), 0, &first);
    receive(at_b_, work, in + 1, sizeof(int), 0, &second);
    ASSERT_UCS(ugdr_stream_wait_all(at_b_, work));
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    destroy(captured);
    const auto send = [&](int times) {
        for (int i = 0; i < times; ++i) {
            EXPECT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
        }
    };
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    send(2);
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_UCS(ugdr_request_cancel(first));
    ASSERT_TRUE(eventually([&] { return ugdr_request_test(first) == UCS_ERR_CANCELED; }));
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    send(1);
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(counters(at_b_).triggered, 3u);
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 4; }));
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_UCS(ugdr_request_cancel(second)); // under way, and the graph waits for it
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(ugdr_request_wait(second), UCS_ERR_CANCELED);
    for (int i = 0; i < 3; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work)); // with nothing left to wait for
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(counters(at_b_).triggered, 4u);
    ugdr_request_free(first);
    ugdr_request_free(second);
    destroy(executable);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 3; }));
}

// One that fails does not keep a graph from going on, nor the next launch from trying again.
TEST_F(Graphs, Failing)
{
    CUstream work = stream();
    int calls = 0;
    begin(work);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ugdr_request_h called;
    ASSERT_UCS(ugdr_call(
        at_a_,
        [](void* calls) { return ++*static_cast<int*>(calls) < 3 ? UCS_ERR_IO_ERROR : UCS_OK; },
        nullptr, &calls, &param, &called));
    ASSERT_UCS(ugdr_condition_destroy(point));
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    for (ucs_status_t expected : {UCS_ERR_IO_ERROR, UCS_ERR_IO_ERROR, UCS_OK}) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(ugdr_request_test(called), expected);
    }
    EXPECT_EQ(counters(at_a_).failed, 2u);
    ugdr_request_free(called);
    destroy(executable);
    destroy(captured);
}

// By force, with a launch that waits: that goes on, and so do all launches afterwards.
TEST_F(Graphs, ForcedWhileAGraphWaits)
{
    CUstream work = stream();
    auto* in = pinned<int>(1);
    begin(work);
    ugdr_request_h received;
    receive(at_b_, work, in, sizeof(int), UGDR_OP_FLAG_STREAM_WAIT, &received);
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    ASSERT_CUDA(cuGraphLaunch(executable, work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(ugdr_request_test(received), UCS_ERR_CANCELED);
    ugdr_request_free(received);
    for (int i = 0; i < 3; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    destroy(executable);
    destroy(captured);
}

// By force while it is captured: what has been captured never waits.
TEST_F(Graphs, ForcedDuringACapture)
{
    CUstream work = stream();
    auto* in = pinned<int>(2);
    begin(work);
    ugdr_request_h received;
    receive(at_b_, work, in, sizeof(int), UGDR_OP_FLAG_STREAM_WAIT, &received);
    ugdr_condition_h waiting = point_of(at_b_, work, UCS_OK, UGDR_CONDITION_FLAG_WAIT);
    const ugdr_op_param_t param = on(waiting);
    ASSERT_UCS(ugdr_tag_recv(at_b_, in + 1, sizeof(int), 2, ~0ul, &param, nullptr));
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    EXPECT_EQ(ugdr_request_test(received), UCS_ERR_CANCELED);
    ugdr_request_free(received);
    EXPECT_UCS(ugdr_condition_destroy(waiting));
    CUgraph captured = end(work);
    CUgraphExec executable = instantiate(captured);
    destroy(captured);
    for (int i = 0; i < 3; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    destroy(executable);
}

// All that happens in a launch of 100 iterations is memory operations: neither the application nor
// the library calls CUDA. Nor does UCX ask what memory the buffers are, which is told that they are
// pinned; our transport does, for a short send.
TEST_F(Graphs, LaunchesNeedNoCallsOfCuda)
{
    if (SOFTCUDA(softcuda_calls) == nullptr) {
        GTEST_SKIP() << "the real driver does not count its calls";
    }
    constexpr int kIterations = 100;
    CUstream streams[] = {stream(), stream()};
    auto* words = pinned<int>(2);
    CUgraphExec executables[2];
    begin(streams[0]);
    for (int i = 0; i < kIterations; ++i) {
        send(at_a_, to_b_, streams[0], words, sizeof(int));
    }
    CUgraph captured = end(streams[0]);
    executables[0] = instantiate(captured);
    destroy(captured);
    begin(streams[1]);
    for (int i = 0; i < kIterations; ++i) {
        receive(at_b_, streams[1], words + 1, sizeof(int));
    }
    captured = end(streams[1]);
    executables[1] = instantiate(captured);
    destroy(captured);
    const auto calls = SOFTCUDA(softcuda_calls);
    const auto questions = [] { return SOFTCUDA(softcuda_call_count)("cuPointerGetAttributes"); };
    for (int round = 1; round <= 3; ++round) {
        const uint64_t calls_before = calls(), questions_before = questions();
        for (int side : {0, 1}) {
            ASSERT_CUDA(cuGraphLaunch(executables[side], streams[side]));
        }
        ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == round * 100u; }));
        const uint64_t asked = questions() - questions_before;
        EXPECT_LE(asked, uint64_t{kIterations});
        EXPECT_EQ(calls() - calls_before - asked, 2u);
        for (CUstream one : streams) {
            ASSERT_CUDA(cuStreamSynchronize(one));
        }
    }
    for (CUgraphExec executable : executables) {
        destroy(executable);
    }
}

TEST_F(Graphs, WhatIsRefused)
{
    CUgraph made = graph(), other = graph();
    CUgraphNode foreign = nullptr;
    ASSERT_CUDA(cuGraphAddEmptyNode(&foreign, other, nullptr, 0));
    add_condition(at_a_, made, {foreign}, 0, UCS_ERR_INVALID_PARAM);
    add_condition(at_a_, nullptr, {}, 0, UCS_ERR_INVALID_PARAM);
    add_condition(at_a_, made, {}, 1u << 20, UCS_ERR_INVALID_PARAM);
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    add_condition(at_a_, made, {}, 0, UCS_ERR_INVALID_PARAM);
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    destroy(made);
    destroy(other);
}

} // namespace
} // namespace synctest
