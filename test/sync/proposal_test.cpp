// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The proposed names (ucp_condition.h): streams, a graph that broadcasts, what kernels trigger; and
// UCP's own operations, which stay as they are.
#include "fixture.hpp"

#include "sync/ucx-gdr/ugdr_device.cuh"

#include "sync/ucx-gdr/ucp_condition.h" // the last: it renames

namespace synctest {
namespace {

class Proposal : public Sides {
  protected:
    void SetUp() override
    {
        Sides::SetUp();
        ugdr_context_set_default(at_a_);
    }
    void TearDown() override
    {
        ugdr_context_set_default(nullptr);
        ASSERT_TRUE(eventually([&] { return ugdr_context_destroy(at_a_, 0) == UCS_OK; }));
        at_a_ = nullptr;
        Sides::TearDown();
    }

    static ucp_condition_h create(ucp_condition_category_t category, void* context)
    {
        const ucp_condition_param_t param{category, context};
        ucp_condition_h condition = nullptr;
        EXPECT_UCS(ucp_create_condition(&param, &condition));
        return condition;
    }
    static ucp_request_param_t on_condition(ucp_condition_h condition)
    {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_CONDITION;
        param.condition = condition;
        return param;
    }
    void receive(int* in, ucp_tag_t tag)
    {
        ugdr_request_h request;
        EXPECT_UCS(ugdr_tag_recv(at_b_, in, sizeof(int), tag, ~0ul, nullptr, &request));
        EXPECT_EQ(ugdr_request_wait(request), UCS_OK);
        ugdr_request_free(request);
    }
};

TEST_F(Proposal, Stream)
{
    CUstream work = stream();
    int out = 5, in = 0;
    Gate gate(work);
    ucp_condition_h condition = create(UCP_CONDITION_CATEGORY_STREAM, work);
    const ucp_request_param_t param = on_condition(condition);
    void* request = ucp_tag_send_nbx(to_b_, &out, sizeof(int), 1, &param);
    ASSERT_TRUE(UCS_PTR_IS_PTR(request));
    ucp_destroy_condition(condition);
    EXPECT_EQ(ucp_request_check_status(request), UCS_INPROGRESS);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(ucp_request_check_status(request), UCS_OK);
    ucp_request_free(request);
    receive(&in, 1);
    EXPECT_EQ(in, 5);

    // Cancelled, and one of UCP's beside it.
    Gate second(work);
    condition = create(UCP_CONDITION_CATEGORY_STREAM, work);
    const ucp_request_param_t later = on_condition(condition);
    request = ucp_tag_recv_nbx(a_->worker, &in, sizeof(int), 2, ~0ul, &later);
    const ucp_request_param_t plain{};
    void* its = ucp_tag_recv_nbx(a_->worker, &in, sizeof(int), 3, ~0ul, &plain);
    ASSERT_TRUE(UCS_PTR_IS_PTR(its));
    for (void* one : {request, its}) {
        ucp_request_cancel(a_->worker, one);
        ASSERT_TRUE(eventually([&] {
            ucp_worker_progress(a_->worker);
            return ucp_request_check_status(one) == UCS_ERR_CANCELED;
        }));
        ucp_request_free(one);
    }
    ucp_destroy_condition(condition);
    second.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
}

TEST_F(Proposal, GraphBroadcast)
{
    CUstream work = stream();
    int buffer = 0, sent = 0, left = 0, right = 0;
    ucp_condition_graph_t from{}, to_left{}, to_right{};
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    from.graph = to_left.graph = to_right.graph = graph;
    ucp_condition_h conditions[] = {create(UCP_CONDITION_CATEGORY_GRAPH, &from),
                                    create(UCP_CONDITION_CATEGORY_GRAPH, &to_left),
                                    create(UCP_CONDITION_CATEGORY_GRAPH, &to_right)};
    const CUgraphNode parents[] = {from.node, from.node},
                      children[] = {to_left.node, to_right.node};
#if CUDA_VERSION >= 13000
    ASSERT_CUDA(cuGraphAddDependencies(graph, parents, children, nullptr, 2));
#else
    ASSERT_CUDA(cuGraphAddDependencies(graph, parents, children, 2));
#endif
    ucp_request_param_t param = on_condition(conditions[0]);
    void* requests[3];
    requests[0] = ucp_tag_recv_nbx(a_->worker, &buffer, sizeof(int), 1, ~0ul, &param);
    param.condition = conditions[1];
    requests[1] = ucp_tag_send_nbx(to_b_, &buffer, sizeof(int), 2, &param);
    param.condition = conditions[2];
    requests[2] = ucp_tag_send_nbx(to_b_, &buffer, sizeof(int), 3, &param);
    for (void* request : requests) {
        ucp_request_free(request);
    }
    for (ucp_condition_h condition : conditions) {
        ucp_destroy_condition(condition);
    }
    CUgraphExec executable = nullptr;
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
    ASSERT_CUDA(cuGraphDestroy(graph));
    for (int round = 1; round <= 5; ++round) {
        sent = round;
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        ASSERT_UCS(ugdr_tag_send(at_b_, to_a_, &sent, sizeof(int), 1, nullptr, nullptr));
        receive(&left, 2);
        receive(&right, 3);
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(left, round);
        EXPECT_EQ(right, round);
    }
    ASSERT_CUDA(cuGraphExecDestroy(executable));
    ASSERT_TRUE(eventually([&] { return counters(at_b_).completed == 15; }));
}

// A flush and an atomic operation behind a put; and what a program does besides, by the functions
// that have no conditions, which say so.
TEST_F(Proposal, EveryFunctionOfUcp)
{
    CUstream work = stream();
    Gate gate(work);
    ucp_condition_h condition = create(UCP_CONDITION_CATEGORY_STREAM, work);
    const ucp_request_param_t param = on_condition(condition);
    void* request = ucp_worker_flush_nbx(a_->worker, &param);
    ASSERT_TRUE(UCS_PTR_IS_PTR(request));
    EXPECT_FALSE(ucp_request_is_completed(request));
    EXPECT_EQ(ucp_atomic_op_nbx(to_b_, UCP_ATOMIC_OP_ADD, nullptr, 1, 0, nullptr, &param),
              UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM)); // without a key
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_TRUE(ucp_request_is_completed(request));
    ucp_request_release(request);
    char byte = 0;
    size_t length = 0;
    for (void* answer :
         {ucp_ep_close_nbx(to_b_, &param), ucp_stream_send_nbx(to_b_, &byte, 1, &param),
          ucp_stream_recv_nbx(to_b_, &byte, 1, &length, &param),
          ucp_tag_send_sync_nbx(to_b_, &byte, 1, 1, &param),
          ucp_tag_msg_recv_nbx(a_->worker, &byte, 1, nullptr, &param),
          ucp_am_recv_data_nbx(a_->worker, nullptr, &byte, 1, &param)}) {
        EXPECT_EQ(answer, UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
    }
    ucp_destroy_condition(condition);
    const ucp_request_param_t plain{};
    synctest::complete({a_->worker, b_->worker}, ucp_ep_flush_nbx(to_b_, &plain));
    synctest::complete({a_->worker, b_->worker}, ucp_worker_flush_nbx(a_->worker, &plain));
    ucp_ep_h another = connect(a_->worker, b_->address().data());
    synctest::complete({a_->worker, b_->worker}, ucp_ep_close_nbx(another, &plain));
}

TEST_F(Proposal, WhatIsRefused)
{
    CUstream work = stream();
    ucp_condition_param_t param{static_cast<ucp_condition_category_t>(3), work};
    ucp_condition_h condition = nullptr;
    EXPECT_EQ(ucp_create_condition(&param, &condition), UCS_ERR_INVALID_PARAM);
    ugdr_context_set_default(nullptr);
    param.category = UCP_CONDITION_CATEGORY_STREAM;
    EXPECT_EQ(ucp_create_condition(&param, &condition), UCS_ERR_INVALID_PARAM);
}

TEST_F(Proposal, KernelTriggered)
{
    int out = 1, in = 0;
    ugdr_dev_condition_t device{};
    ucp_condition_h condition = create(UCP_CONDITION_CATEGORY_KERNEL_TRIGGERED, &device);
    const ucp_request_param_t param = on_condition(condition);
    ucp_request_free(ucp_tag_send_nbx(to_b_, &out, sizeof(int), 1, &param));
    for (; out <= 3; ++out) {
        ugdr_dev_trigger(device);
        receive(&in, 1);
        EXPECT_EQ(ugdr_dev_wait(device), UCS_OK);
        EXPECT_EQ(in, out);
    }
    ucp_destroy_condition(condition);
}

// The two sides have default contexts of their own, each of which is asked for once.
TEST_F(Proposal, Preparations)
{
    std::vector<int> out(64), in(64);
    ucp_preparation_t from{}, to{};
    const auto prepare = [](ucp_ep_h ep, ugdr_transfer_side_t side, std::vector<int>& buffer,
                            unsigned partitions, ucp_preparation_t& made) {
        const ucp_preparation_param_t param{side, buffer.data(), buffer.size() * sizeof(int),
                                            partitions, 3};
        EXPECT_UCS(ucp_prepare_transfers(ep, nullptr, &param, &made));
    };
    const uint64_t posted = counters(at_a_).posted;
    std::thread other([&] {
        EXPECT_CUDA(cuCtxSetCurrent(context_));
        prepare(to_b_, UGDR_TRANSFER_SEND, out, 4, from);
    });
    EXPECT_TRUE(eventually([&] { return counters(at_a_).posted > posted; }));
    ugdr_context_set_default(at_b_);
    prepare(to_a_, UGDR_TRANSFER_RECV, in, 2, to);
    other.join();
    ugdr_context_set_default(at_a_);
    for (int i = 1; i <= 10; ++i) {
        std::fill(out.begin(), out.end(), i);
        EXPECT_UCS(ugdr_transfer_start(from.transfer));
        EXPECT_UCS(ugdr_transfer_start(to.transfer));
        EXPECT_EQ(ucp_release_preparations(&to), UCS_ERR_BUSY);
        for (unsigned partition = 0; partition < 4; ++partition) {
            EXPECT_UCS(ugdr_transfer_ready(from.transfer, partition));
        }
        EXPECT_UCS(ugdr_transfer_wait(to.transfer));
        EXPECT_UCS(ugdr_transfer_wait(from.transfer));
        EXPECT_EQ(in, out);
    }
    EXPECT_UCS(ucp_release_preparations(&from));
    EXPECT_UCS(ucp_release_preparations(&to));
}

} // namespace
} // namespace synctest
