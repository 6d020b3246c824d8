// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// GPUs that lack something. sync_test.sh runs each of these with the variables it needs.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"
#include "sync/ucx-gdr/ugdr_device.cuh"

namespace synctest {
namespace {

// SOFTCUDA_MEMOPS=0
TEST_F(Sides, DISABLED_HostFunctionsTriggerWhereThereAreNoMemops)
{
    CUstream work = stream();
    int out[20], in[20];
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_TRIGGER;
    ASSERT_UCS(ugdr_context_query(at_a_, &attr));
    EXPECT_EQ(attr.trigger, UGDR_TRIGGER_HOST_FUNCTIONS);
    Gate gate(work);
    for (int i = 0; i < 20; ++i) {
        out[i] = i;
        ASSERT_UCS(ugdr_tag_recv(at_b_, in + i, sizeof(int), 1, ~0ul, nullptr, nullptr));
        ugdr_condition_h point = point_of(at_a_, work);
        const ugdr_op_param_t param = on(point);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, out + i, sizeof(int), 1, &param, nullptr));
        const ugdr_op_param_t waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_EQ(ugdr_worker_flush(at_a_, &waiting, nullptr), UCS_ERR_UNSUPPORTED);
        ASSERT_UCS(ugdr_condition_destroy(point));
    }
    EXPECT_EQ(ugdr_stream_wait_all(at_a_, work), UCS_ERR_UNSUPPORTED);
    point_of(at_a_, work, UCS_ERR_UNSUPPORTED, UGDR_CONDITION_FLAG_WAIT);
    EXPECT_EQ(counters(at_a_).posted, 0u);
    gate.open();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 20; }));
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(in[i], i);
    }
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 20; }));
}

// SOFTCUDA_MEMOPS=0, or a driver without nodes of memory operations: launches of a graph are
// counted, and none is lost. What would have to wait is refused, and nothing is left of it.
TEST_F(Persistent, DISABLED_HostFunctionsTriggerInGraphs)
{
    constexpr int kLaunches = 20;
    CUstream work = stream();
    int out = 3, in[kLaunches] = {};
    for (int& word : in) {
        ASSERT_UCS(ugdr_tag_recv(at_b_, &word, sizeof(int), 1, ~0ul, nullptr, nullptr));
    }
    CUgraph captured = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ugdr_condition_h point = point_of(at_a_, work);
    ugdr_request_h request = nullptr;
    const ugdr_op_param_t param = on(point), waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, &param, &request));
    EXPECT_EQ(ugdr_worker_flush(at_a_, &waiting, nullptr), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(ugdr_stream_wait(at_a_, work, &request, 1), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(ugdr_stream_wait_all(at_a_, work), UCS_ERR_UNSUPPORTED);
    point_of(at_a_, work, UCS_ERR_UNSUPPORTED, UGDR_CONDITION_FLAG_WAIT);
    ASSERT_UCS(ugdr_condition_destroy(point));
    ASSERT_CUDA(cuStreamEndCapture(work, &captured));
    add_condition(at_a_, captured, {}, 0, UCS_ERR_UNSUPPORTED);
    add_condition(at_a_, captured, {}, UGDR_CONDITION_FLAG_SPLIT, UCS_ERR_UNSUPPORTED);
    size_t nodes = 0;
    ASSERT_CUDA(cuGraphGetNodes(captured, nullptr, &nodes));
    EXPECT_EQ(nodes, 1u);
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, captured, 0));
    for (int i = 0; i < kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, work));
    }
    ASSERT_CUDA(cuStreamSynchronize(work));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == kLaunches; }));
    for (int word : in) {
        EXPECT_EQ(word, 3);
    }
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == kLaunches; }));
    EXPECT_UCS(ugdr_request_test(request));
    ugdr_request_free(request);
    ASSERT_CUDA(cuGraphExecDestroy(executable));
    ASSERT_CUDA(cuGraphDestroy(captured));
}

// A driver without user objects, before CUDA 11.3: no graphs, and the context ends as if none had
// been asked for.
TEST_F(Persistent, DISABLED_NoGraphsWithoutUserObjects)
{
    CUstream work = stream();
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
    point_of(at_a_, work, UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(ugdr_stream_wait_all(at_a_, work), UCS_ERR_UNSUPPORTED);
    ASSERT_CUDA(cuStreamEndCapture(work, &graph));
    add_condition(at_a_, graph, {}, 0, UCS_ERR_UNSUPPORTED);
    ASSERT_CUDA(cuGraphDestroy(graph));
}

// SOFTCUDA_PINNED=256M: no memory for the words of another node. An operation whose wait has no
// place in the graph is not there, either.
TEST_F(Persistent, DISABLED_NothingIsLeftOfWhatFailsHalfWay)
{
    CUstream work = stream();
    CUgraph first = nullptr; // whose words are of a page with many
    ASSERT_CUDA(cuGraphCreate(&first, 0));
    ASSERT_UCS(ugdr_condition_destroy(add_condition(at_a_, first)));
    ASSERT_CUDA(cuGraphDestroy(first));
    for (size_t bytes = 128 << 20; bytes > 0; bytes /= 2) {
        void* memory = nullptr;
        while (cuMemHostAlloc(&memory, bytes, 0) == CUDA_SUCCESS)
            ;
    }
    // The last words may be the condition's or the wait's: one of two attempts has it so.
    bool half_way = false;
    for (int attempt = 0; attempt < 10 && !half_way; ++attempt) {
        CUgraph captured = nullptr;
        CUgraphExec executable = nullptr;
        std::atomic<int> calls{0};
        int whole = 0;
        ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (attempt % 2 != 0) {
            ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, work)));
        }
        for (;; ++whole) {
            ugdr_condition_params_t params{};
            params.field_mask =
                UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
            params.category = UGDR_CONDITION_STREAM;
            params.stream = work;
            ugdr_condition_h point = nullptr;
            if (ugdr_condition_create(at_a_, &params, &point) != UCS_OK) {
                break;
            }
            const ugdr_op_param_t waiting = on(point, UGDR_OP_FLAG_STREAM_WAIT);
            const ucs_status_t status = ugdr_call(
                at_a_,
                [](void* count) {
                    ++*static_cast<std::atomic<int>*>(count);
                    return UCS_OK;
                },
                nullptr, &calls, &waiting, nullptr);
            ASSERT_UCS(ugdr_condition_destroy(point));
            half_way = status != UCS_OK;
            if (half_way) {
                break;
            }
        }
        ASSERT_CUDA(cuStreamEndCapture(work, &captured));
        ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, captured, 0));
        for (int i = 1; i <= 2; ++i) {
            ASSERT_CUDA(cuGraphLaunch(executable, work));
            ASSERT_CUDA(cuStreamSynchronize(work));
            EXPECT_EQ(calls, i * whole);
        }
        ASSERT_CUDA(cuGraphExecDestroy(executable));
        ASSERT_CUDA(cuGraphDestroy(captured));
        ASSERT_TRUE(eventually([&] { return ugdr_context_destroy(at_a_, 0) == UCS_OK; }));
        at_a_ = create_on(a_->worker);
    }
    EXPECT_TRUE(half_way);
}

// SOFTCUDA_RDMA_ORDERING=flush: of a function that writes to device memory as an HCA does, the
// stream sees the bytes, since the library flushes before it lets the stream go on.
TEST_F(Sides, DISABLED_FlushedBeforeAStreamGoesOn)
{
    CUstream work = stream();
    CUdeviceptr memory = 0;
    auto* seen = pinned<char>(1);
    ASSERT_CUDA(cuMemAlloc(&memory, 4096));
    ASSERT_CUDA(cuMemsetD8(memory, 1, 4096));
    char* alias =
        static_cast<char*>(SOFTCUDA(softcuda_host_alias)(reinterpret_cast<void*>(memory), 4096));
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_call(
        at_a_,
        [](void* byte) {
            *static_cast<char*>(byte) = 2;
            return UCS_OK;
        },
        nullptr, alias, &param, nullptr));
    ASSERT_UCS(ugdr_condition_destroy(point));
    ASSERT_CUDA(cuMemcpyDtoHAsync(seen, memory, 1, work));
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(*seen, 2);
    EXPECT_EQ(counters(at_a_).flushes, 1u);

    // In a graph the same, in two nodes and in one.
    const auto increment = [](void* byte) {
        ++*static_cast<char*>(byte);
        return UCS_OK;
    };
    char expected = 2;
    for (const bool one : {false, true}) {
        CUgraph captured = nullptr;
        CUgraphExec executable = nullptr;
        ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
        point = point_of(at_a_, work, UCS_OK, one ? UGDR_CONDITION_FLAG_WAIT : 0);
        const ugdr_op_param_t in_graph = on(point, one ? 0 : UGDR_OP_FLAG_STREAM_WAIT);
        ASSERT_UCS(ugdr_call(at_a_, increment, nullptr, alias, &in_graph, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(point));
        ASSERT_CUDA(cuMemcpyDtoHAsync(seen, memory, 1, work));
        ASSERT_CUDA(cuStreamEndCapture(work, &captured));
        ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, captured, 0));
        ASSERT_CUDA(cuGraphDestroy(captured));
        for (int launch = 0; launch < 2; ++launch) {
            ASSERT_CUDA(cuGraphLaunch(executable, work));
            ASSERT_CUDA(cuStreamSynchronize(work));
            EXPECT_EQ(*seen, ++expected);
        }
        ASSERT_CUDA(cuGraphExecDestroy(executable));
    }
    EXPECT_EQ(counters(at_a_).flushes, 5u);

    // And what a kernel waits for.
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
    params.category = UGDR_CONDITION_KERNEL;
    ugdr_condition_attr_t attr{};
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
    ASSERT_UCS(ugdr_condition_create(at_a_, &params, &point));
    ASSERT_UCS(ugdr_condition_query(point, &attr));
    const ugdr_op_param_t of_kernel = on(point);
    ASSERT_UCS(ugdr_call(at_a_, increment, nullptr, alias, &of_kernel, nullptr));
    for (int round = 0; round < 2; ++round) {
        ugdr_dev_trigger(attr.device);
        EXPECT_EQ(ugdr_dev_wait(attr.device), UCS_OK);
        ASSERT_CUDA(cuMemcpyDtoHAsync(seen, memory, 1, work));
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(*seen, ++expected);
    }
    EXPECT_EQ(counters(at_a_).flushes, 7u);
    ASSERT_UCS(ugdr_condition_destroy(point));
    ASSERT_TRUE(eventually([&] { return ugdr_context_destroy(at_a_, 0) == UCS_OK; }));
    at_a_ = nullptr;
}

// SOFTCUDA_RDMA_ORDERING=none: neither seen nor flushed.
TEST_F(Sides, DISABLED_NoWaitsWhereNothingCanBeFlushed)
{
    EXPECT_EQ(ugdr_stream_wait_all(at_a_, stream()), UCS_ERR_UNSUPPORTED);
}

// The process ends with streams and a graph waiting, operations under way and the context in place.
TEST_F(Sides, DISABLED_ExitWithoutDestroying)
{
    static int in = 0;
    ugdr_request_h request;
    CUstream work = stream();
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, nullptr, &request));
    ASSERT_UCS(ugdr_stream_wait(at_b_, work, &request, 1));
    ugdr_condition_h point = point_of(at_a_, work); // behind the wait: never reached
    const ugdr_op_param_t param = on(point);
    ASSERT_UCS(ugdr_worker_flush(at_a_, &param, nullptr));
    CUgraph captured = nullptr;
    CUgraphExec executable = nullptr;
    CUstream launching = stream();
    ASSERT_CUDA(cuStreamBeginCapture(launching, CU_STREAM_CAPTURE_MODE_GLOBAL));
    point = point_of(at_b_, launching);
    const ugdr_op_param_t in_graph = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, &in_graph, nullptr));
    ASSERT_CUDA(cuStreamEndCapture(launching, &captured));
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, captured, 0));
    ASSERT_CUDA(cuGraphLaunch(executable, launching));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 2; }));
    std::exit(77);
}

} // namespace
} // namespace synctest
