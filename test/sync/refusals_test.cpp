// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a program gives that is none, or somebody else's: refused by a status, before anything of it
// is used, and nothing is left of it.
#include "fixture.hpp"

#include <climits>

namespace synctest {
namespace {

class Refusals : public Sides {
  protected:
    // Nothing was recorded.
    void TearDown() override
    {
        EXPECT_EQ(counters(at_a_).posted, 0u);
        EXPECT_EQ(counters(at_b_).posted, 0u);
        Sides::TearDown();
    }
};

// The other context's thread would handle it, too.
TEST_F(Refusals, AnotherContextsCondition)
{
    CUstream work = stream();
    int out = 1;
    const auto refused = [&](ugdr_condition_h condition) {
        const ugdr_op_param_t param = on(condition),
                              waiting = on(condition, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_EQ(ugdr_tag_send(at_a_, to_b_, &out, sizeof(out), 1, &param, nullptr),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(ugdr_worker_flush(at_a_, &waiting, nullptr), UCS_ERR_INVALID_PARAM);
        EXPECT_UCS(ugdr_condition_destroy(condition));
    };
    refused(point_of(at_b_, work));
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
    params.category = UGDR_CONDITION_KERNEL;
    ugdr_condition_h kernels = nullptr;
    ASSERT_UCS(ugdr_condition_create(at_b_, &params, &kernels));
    refused(kernels);
    EXPECT_CUDA(cuStreamSynchronize(work));
    EXPECT_TRUE(eventually([&] { return ugdr_context_destroy(at_b_, 0) == UCS_OK; }));
    at_b_ = create_on(b_->worker);
}

TEST_F(Refusals, NullPointers)
{
    CUstream work = stream();
    ugdr_condition_params_t params{};
    ugdr_condition_h condition = nullptr;
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
    params.category = UGDR_CONDITION_STREAM;
    params.stream = work;
    EXPECT_EQ(ugdr_condition_create(nullptr, &params, &condition), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_condition_create(at_a_, nullptr, &condition), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_condition_create(at_a_, &params, nullptr), UCS_ERR_INVALID_PARAM);
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
    params.category = UGDR_CONDITION_GRAPH;
    params.graph = graph;
    params.num_dependencies = 1; // of none
    EXPECT_EQ(ugdr_condition_create(at_a_, &params, &condition), UCS_ERR_INVALID_PARAM);
    ASSERT_CUDA(cuGraphDestroy(graph));

    int word = 0;
    const ugdr_op_param_t on_none = on(nullptr);
    EXPECT_EQ(ugdr_tag_send(at_a_, to_b_, &word, sizeof(word), 1, &on_none, nullptr),
              UCS_ERR_INVALID_PARAM);
    ugdr_op_param_t no_ucp{};
    no_ucp.field_mask = UGDR_OP_PARAM_FIELD_UCP;
    EXPECT_EQ(ugdr_worker_flush(at_a_, &no_ucp, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_worker_flush(nullptr, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_tag_send(at_a_, nullptr, &word, sizeof(word), 1, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_ep_flush(at_a_, nullptr, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_put(at_a_, to_b_, &word, sizeof(word), 0, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_call(at_a_, nullptr, nullptr, nullptr, nullptr, nullptr), UCS_ERR_INVALID_PARAM);

    const ugdr_request_h none[] = {nullptr};
    EXPECT_EQ(ugdr_stream_wait(at_a_, work, none, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_wait(at_a_, work, nullptr, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_stream_wait(at_a_, work, nullptr, 0)); // for nothing
    EXPECT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(ugdr_context_query(at_a_, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_context_destroy(nullptr, 0), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_condition_destroy(nullptr));
    EXPECT_EQ(ugdr_condition_record(nullptr, work), UCS_ERR_INVALID_PARAM);
    ugdr_condition_attr_t attr{};
    EXPECT_EQ(ugdr_condition_query(nullptr, &attr), UCS_ERR_INVALID_PARAM);
}

// Every function that takes a handle, and those that no test above gives none.
TEST_F(Refusals, NoHandle)
{
    CUstream work = stream();
    int word = 0;
    const ucp_address_t* address = nullptr;
    size_t length = 0;
    ugdr_condition_h condition = point_of(at_a_, work);
    EXPECT_EQ(ugdr_context_create_version(UGDR_API_MAJOR, UGDR_API_MINOR, nullptr, nullptr, &at_a_),
              UCS_ERR_INVALID_PARAM);
    ugdr_context_params_t params{};
    EXPECT_EQ(ugdr_context_create(&params, nullptr), UCS_ERR_INVALID_PARAM);
    ugdr_context_attr_t attr{};
    EXPECT_EQ(ugdr_context_query(nullptr, &attr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_progress(nullptr), 0u);
    EXPECT_EQ(ugdr_worker_address(nullptr, &address, &length), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_worker_address(at_a_, nullptr, &length), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_worker_address(at_a_, &address, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_condition_query(condition, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_release(nullptr, work), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_wait(nullptr, work, nullptr, 0), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_stream_wait_all(nullptr, work), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_tag_send(nullptr, to_b_, &word, 1, 1, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_tag_recv(nullptr, &word, 1, 1, 1, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_am_send(nullptr, to_b_, 1, nullptr, 0, &word, 1, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_am_send(at_a_, nullptr, 1, nullptr, 0, &word, 1, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_put(nullptr, to_b_, &word, 1, 0, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_get(nullptr, to_b_, &word, 1, 0, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_get(at_a_, to_b_, &word, 1, 0, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(
        ugdr_atomic(nullptr, to_b_, UCP_ATOMIC_OP_ADD, &word, 1, 0, nullptr, nullptr, nullptr),
        UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_atomic(at_a_, to_b_, UCP_ATOMIC_OP_ADD, &word, 1, 0, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_ep_flush(nullptr, to_b_, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_call(
                  nullptr, [](void*) { return UCS_OK; }, nullptr, nullptr, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_request_test(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_request_wait(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_request_cancel(nullptr), UCS_ERR_INVALID_PARAM);
    ugdr_request_free(nullptr);
    ugdr_context_set_default(nullptr);
    EXPECT_EQ(ugdr_context_default(), nullptr);
    EXPECT_UCS(ugdr_condition_destroy(condition));
}

// More than any array, or any memory, holds.
TEST_F(Refusals, AbsurdSizes)
{
    CUstream work = stream();
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    CUgraphNode node = nullptr;
    ugdr_condition_h condition = nullptr;
    for (const size_t many : {size_t{1} << 60, SIZE_MAX}) {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
        params.category = UGDR_CONDITION_GRAPH;
        params.graph = graph;
        params.dependencies = &node;
        params.num_dependencies = many;
        EXPECT_EQ(ugdr_condition_create(at_a_, &params, &condition), UCS_ERR_INVALID_PARAM);
        ugdr_request_h request = nullptr;
        EXPECT_EQ(ugdr_stream_wait(at_a_, work, &request, many), UCS_ERR_INVALID_PARAM);
    }
    ASSERT_CUDA(cuGraphDestroy(graph));

    for (const unsigned many : {UINT_MAX, UINT_MAX / 2, 65537u}) {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_COUNT;
        params.category = UGDR_CONDITION_KERNEL;
        params.count = many;
        EXPECT_EQ(ugdr_condition_create(at_a_, &params, &condition), UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(condition, nullptr);
}

// A mask that was forgotten would have the operation begin at once, and not where it was to.
TEST_F(Refusals, ForgottenMasks)
{
    CUstream work = stream();
    int word = 0;
    ugdr_condition_h condition = point_of(at_a_, work);
    ugdr_op_param_t param{};
    param.condition = condition;
    EXPECT_EQ(ugdr_tag_send(at_a_, to_b_, &word, sizeof(word), 1, &param, nullptr),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_worker_flush(at_a_, &param, nullptr), UCS_ERR_INVALID_PARAM);
    for (const uint64_t needs_condition : {UGDR_OP_PARAM_FIELD_FLAGS, UGDR_OP_PARAM_FIELD_INDEX}) {
        const ucp_request_param_t ucp{};
        param.ucp = &ucp;
        param.field_mask = needs_condition | UGDR_OP_PARAM_FIELD_UCP;
        EXPECT_EQ(ugdr_worker_flush(at_a_, &param, nullptr), UCS_ERR_INVALID_PARAM);
    }

    ugdr_context_attr_t context_attr{};
    context_attr.field_mask = uint64_t{1} << 40;
    EXPECT_EQ(ugdr_context_query(at_a_, &context_attr), UCS_ERR_INVALID_PARAM);
    ugdr_condition_attr_t attr{};
    attr.field_mask = uint64_t{1} << 40;
    EXPECT_EQ(ugdr_condition_query(condition, &attr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_condition_destroy(condition));
}

// What is not set to zero, or meant for another version.
TEST_F(Refusals, UnknownBitsAndValues)
{
    ugdr_context_params_t params{};
    params.field_mask = uint64_t{1} << 40;
    create(params, UCS_ERR_INVALID_PARAM);
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_IDLE;
    params.idle = static_cast<ugdr_idle_t>(3);
    create(params, UCS_ERR_INVALID_PARAM);
    ugdr_op_param_t param{};
    param.field_mask = uint64_t{1} << 40;
    EXPECT_EQ(ugdr_worker_flush(at_a_, &param, nullptr), UCS_ERR_INVALID_PARAM);
    ugdr_condition_params_t condition{};
    condition.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
    condition.category = static_cast<ugdr_condition_category_t>(3);
    ugdr_condition_h made = nullptr;
    EXPECT_EQ(ugdr_condition_create(at_a_, &condition, &made), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_context_destroy(at_a_, 1u << 7), UCS_ERR_INVALID_PARAM);
}

} // namespace
} // namespace synctest
