// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels trigger operations and wait for them. The device's functions, compiled for the host, run
// in threads, and as kernels on the GPU.
#include "kernel_functions.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace synctest {
namespace {

class Kernels : public Persistent {
  protected:
    ugdr_condition_h condition(ugdr_context_h context, unsigned count = 1, unsigned arrivals = 1,
                               ucs_status_t expected = UCS_OK)
    {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_COUNT |
                            UGDR_CONDITION_PARAM_FIELD_ARRIVALS;
        params.category = UGDR_CONDITION_KERNEL;
        params.count = count;
        params.arrivals = arrivals;
        ugdr_condition_h made = nullptr;
        EXPECT_EQ(ugdr_condition_create(context, &params, &made), expected);
        return made;
    }

    // As kernels have it.
    static ugdr_dev_condition_t device(ugdr_condition_h condition)
    {
        ugdr_condition_attr_t attr{};
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
        EXPECT_UCS(ugdr_condition_query(condition, &attr));
        return attr.device;
    }

    static ugdr_op_param_t at(ugdr_condition_h condition, unsigned index = 0)
    {
        ugdr_op_param_t param = on(condition);
        param.field_mask |= UGDR_OP_PARAM_FIELD_INDEX;
        param.index = index;
        return param;
    }

    // It ends with what is under way.
    static void destroy(ugdr_context_h context, ugdr_condition_h condition)
    {
        EXPECT_UCS(ugdr_condition_destroy(condition));
        EXPECT_TRUE(eventually([&] {
            ugdr_context_counters_t now = counters(context);
            return now.posted == now.completed;
        }));
    }

    // Kernels fill the partitions of a buffer, which are sent, and others look at what comes.
    struct Memory {
        CUcontext from, to;
        int *out, *in;
    };
    void partitions(const Memory& memory, bool graph);

    static constexpr unsigned kPartitions = 8, kLength = 4096; // numbers in each
};

// Destroyed where UCP is done with its operation, and the library has seen neither.
TEST_F(Kernels, EndsTogetherWithItsOperation)
{
    Worker b(UCS_THREAD_MODE_SINGLE);
    ucp_ep_h to_it = connect(a_->worker, b.address().data());
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER | UGDR_CONTEXT_PARAM_FIELD_PROGRESS;
    params.progress = UGDR_PROGRESS_CALLER;
    params.worker = b.worker;
    ugdr_context_h context = create(params);
    int in = 0, out = 7;
    ugdr_condition_h point = condition(context);
    const ugdr_op_param_t param = at(point);
    ASSERT_UCS(ugdr_tag_recv(context, &in, sizeof(in), 5, ~0ul, &param, nullptr));
    ugdr_progress(context);
    ugdr_dev_trigger(device(point));
    ugdr_progress(context);
    EXPECT_EQ(counters(context).posted, 1u);
    const ucp_request_param_t plain{};
    complete({a_->worker, b.worker}, ucp_tag_send_nbx(to_it, &out, sizeof(out), 5, &plain));
    const auto arrived = std::chrono::steady_clock::now() + kLongEnough;
    while (in == 0 || std::chrono::steady_clock::now() < arrived) {
        ucp_worker_progress(b.worker);
    }
    EXPECT_EQ(counters(context).completed, 0u);
    ASSERT_UCS(ugdr_condition_destroy(point));
    for (int i = 0; i < 10; ++i) {
        ugdr_progress(context);
    }
    EXPECT_EQ(counters(context).completed, 1u);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
    close(a_->worker, b.worker, to_it);
}

// Partitions of one buffer in any order, of many rounds: each is sent when it is triggered, with
// what was written before, and the next round's trigger waits for that.
TEST_F(Kernels, PartitionsInAnyOrder)
{
    constexpr unsigned kPartitions = 16;
    constexpr int kRounds = 50;
    ugdr_condition_h sends = condition(at_a_, kPartitions),
                     receives = condition(at_b_, kPartitions);
    std::vector<int> out(kPartitions), in(kPartitions);
    for (unsigned i = 0; i < kPartitions; ++i) {
        const ugdr_op_param_t send = at(sends, i), receive = at(receives, i);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out[i], sizeof(int), i, &send, nullptr));
        ASSERT_UCS(ugdr_tag_recv(at_b_, &in[i], sizeof(int), i, ~0ul, &receive, nullptr));
    }
    const ugdr_dev_condition_t to = device(sends), from = device(receives);
    std::thread receiver([&] {
        for (int round = 1; round <= kRounds; ++round) {
            for (unsigned i = 0; i < kPartitions; ++i) {
                ugdr_dev_trigger(from, i);
            }
            for (unsigned i = 0; i < kPartitions; ++i) {
                EXPECT_EQ(ugdr_dev_wait(from, i), UCS_OK);
                EXPECT_EQ(in[i], round * 100 + int(i));
            }
        }
    });
    std::vector<unsigned> order(kPartitions);
    for (unsigned i = 0; i < kPartitions; ++i) {
        order[i] = i;
    }
    std::mt19937 random(1);
    for (int round = 1; round <= kRounds; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (unsigned i : order) {
            EXPECT_EQ(ugdr_dev_wait(to, i), UCS_OK); // before the buffer is used again
            out[i] = round * 100 + int(i);
            ugdr_dev_trigger_waited(to, i);
        }
    }
    receiver.join();
    for (unsigned i = 0; i < kPartitions; ++i) {
        EXPECT_EQ(ugdr_dev_wait(to, i), UCS_OK);
    }
    EXPECT_EQ(counters(at_a_).completed, uint64_t{kPartitions * kRounds});
    destroy(at_a_, sends);
    destroy(at_b_, receives);
}

// Many threads write a piece each; the last one to arrive triggers.
TEST_F(Kernels, ArrivalsOfManyThreads)
{
    if (SOFTCUDA(softcuda_host_alias) == nullptr) {
        GTEST_SKIP() << "threads cannot count in a real GPU's memory";
    }
    constexpr int kThreads = 8, kRounds = 200;
    ugdr_condition_h arrivals = condition(at_a_, 2, kThreads);
    ugdr_dev_condition_t on_device = device(arrivals);
    ASSERT_NE(on_device.arrived, nullptr);
    on_device.arrived = static_cast<unsigned*>(
        SOFTCUDA(softcuda_host_alias)(on_device.arrived, on_device.count * sizeof(unsigned)));
    std::atomic<int> calls{0}, wrong{0};
    struct Piece {
        std::vector<int> of_each = std::vector<int>(kThreads);
        std::atomic<int>*calls, *wrong;
    } piece;
    piece.calls = &calls;
    piece.wrong = &wrong;
    const ugdr_op_param_t param = at(arrivals, 1);
    ASSERT_UCS(ugdr_call(
        at_a_,
        [](void* argument) {
            auto& here = *static_cast<Piece*>(argument);
            const int round = ++*here.calls;
            for (int number : here.of_each) {
                *here.wrong += number != round;
            }
            return UCS_OK;
        },
        nullptr, &piece, &param, nullptr));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int round = 1; round <= kRounds; ++round) {
                piece.of_each[t] = round;
                ugdr_dev_arrive(on_device, 1);
                while (calls < round || !ugdr_dev_test(on_device, 1)) {
                    std::this_thread::yield();
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(calls, kRounds);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(counters(at_a_).triggered, uint64_t{kRounds});
    destroy(at_a_, arrivals);
}

// The next round's trigger waits until the operations of this one are complete; the status of one
// that failed is there, until the next round.
TEST_F(Kernels, ATriggerThatComesTooEarlyWaits)
{
    ugdr_condition_h made = condition(at_b_);
    const ugdr_dev_condition_t on_device = device(made);
    int in = 0, out = 3;
    std::atomic<bool> second{false};
    const ugdr_op_param_t param = at(made);
    ugdr_request_h received;
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, &param, &received));
    EXPECT_TRUE(ugdr_dev_test(on_device));
    ugdr_dev_trigger(on_device);
    EXPECT_FALSE(ugdr_dev_test(on_device));
    std::thread kernel([&] {
        ugdr_dev_trigger(on_device);
        second = true;
    });
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_FALSE(second);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
    kernel.join();
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 2; }));
    EXPECT_UCS(ugdr_request_cancel(received));
    EXPECT_EQ(ugdr_dev_wait(on_device), UCS_ERR_CANCELED);
    ugdr_dev_trigger(on_device); // with nothing attached
    EXPECT_EQ(ugdr_dev_wait(on_device), UCS_OK);
    ugdr_request_free(received);
    destroy(at_b_, made);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 1; }));
}

// Who says that it has waited, and has not: nobody stands still, and one trigger is lost.
TEST_F(Kernels, ATriggerWithoutTheWaitIsLost)
{
    ugdr_condition_h made = condition(at_b_);
    const ugdr_dev_condition_t on_device = device(made);
    int in = 0, out = 3;
    const ugdr_op_param_t param = at(made);
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, &param, nullptr));
    ugdr_dev_trigger_waited(on_device);
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    ugdr_dev_trigger_waited(on_device);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, &out, sizeof(int), 1, nullptr, nullptr));
    EXPECT_EQ(ugdr_dev_wait(on_device), UCS_OK);
    EXPECT_EQ(in, out);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(counters(at_b_).posted, 1u);
    destroy(at_b_, made);
    ASSERT_TRUE(eventually([&] { return counters(at_a_).completed == 1; }));
}

// Whoever waits, or triggers too late, goes on.
TEST_F(Kernels, ForcedWhileAKernelWaits)
{
    ugdr_condition_h made = condition(at_b_);
    const ugdr_dev_condition_t on_device = device(made);
    static int in;
    const ugdr_op_param_t param = at(made);
    ASSERT_UCS(ugdr_tag_recv(at_b_, &in, sizeof(int), 1, ~0ul, &param, nullptr));
    ugdr_dev_trigger(on_device);
    std::thread kernel([&] { EXPECT_EQ(ugdr_dev_wait(on_device), UCS_ERR_CANCELED); });
    ASSERT_TRUE(eventually([&] { return counters(at_b_).posted == 1; }));
    EXPECT_EQ(ugdr_context_destroy(at_b_, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_context_destroy(at_b_, UGDR_DESTROY_FORCE));
    at_b_ = nullptr;
    kernel.join();
    for (int i = 0; i < 3; ++i) {
        ugdr_dev_trigger(on_device);
    }
    EXPECT_UCS(ugdr_condition_destroy(made));
}

TEST_F(Kernels, WhatIsRefused)
{
    condition(at_a_, 0, 1, UCS_ERR_INVALID_PARAM);
    condition(at_a_, 1, 0, UCS_ERR_INVALID_PARAM);
    ugdr_condition_h made = condition(at_a_, 2);
    const ugdr_op_param_t third = at(made, 2), waiting = on(made, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_EQ(ugdr_worker_flush(at_a_, &third, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_worker_flush(at_a_, &waiting, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_condition_record(made, stream()), UCS_ERR_INVALID_PARAM);
    ugdr_condition_attr_t attr{};
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
    ugdr_condition_h point = point_of(at_a_, stream());
    EXPECT_EQ(ugdr_condition_query(point, &attr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_condition_destroy(point));
    destroy(at_a_, made);
}

// Whatever is captured meanwhile, by streams that wait for the legacy one or do not, it is none the
// worse for it.
TEST_F(Kernels, MadeDuringACapture)
{
    for (const CUstream_flags kind : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT}) {
        CUstream work = nullptr;
        CUgraph captured = nullptr;
        ASSERT_CUDA(cuStreamCreate(&work, kind));
        ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
        // As many as no other test has: memory is taken anew.
        ugdr_condition_h made = condition(at_a_, kind == CU_STREAM_DEFAULT ? 301 : 302, 2);
        EXPECT_CUDA(cuStreamEndCapture(work, &captured));
        if (made != nullptr) {
            destroy(at_a_, made);
        }
        if (captured != nullptr) {
            EXPECT_CUDA(cuGraphDestroy(captured));
        }
        EXPECT_CUDA(cuStreamDestroy(work));
    }
}

// In a stream, in a captured graph and in one that is made by hand.
TEST_F(Kernels, InStreamsAndGraphs)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    const CUfunction trigger = kernel("ugdr_device", "ugdr_trigger"),
                     wait = kernel("ugdr_device", "ugdr_wait");
    CUstream work = stream();
    auto* words = pinned<int>(2);
    ugdr_condition_h made = condition(at_a_);
    ugdr_dev_condition_t on_device = device(made);
    unsigned index = 0;
    int* status = nullptr;
    void* of_trigger[] = {&on_device, &index};
    void* of_wait[] = {&on_device, &index, &status};
    const ugdr_op_param_t param = at(made);
    ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, words, sizeof(int), 1, &param, nullptr));
    int number = 0;
    const auto expect = [&](const std::function<void()>& run) {
        words[0] = ++number;
        words[1] = 0;
        ugdr_request_h received;
        ASSERT_UCS(ugdr_tag_recv(at_b_, words + 1, sizeof(int), 1, ~0ul, nullptr, &received));
        run();
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(counters(at_a_).completed, unsigned(number));
        EXPECT_EQ(ugdr_request_wait(received), UCS_OK);
        EXPECT_EQ(words[1], number);
        ugdr_request_free(received);
    };
    const auto enqueue = [&] {
        launch(trigger, 1, 1, work, {&on_device, &index});
        launch(wait, 1, 1, work, {&on_device, &index, &status});
    };
    expect(enqueue);

    CUgraph captured = nullptr, by_hand = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
    enqueue();
    ASSERT_CUDA(cuStreamEndCapture(work, &captured));
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = trigger;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = of_trigger;
    CUgraphNode triggering = nullptr, waiting = nullptr;
    ASSERT_CUDA(cuGraphCreate(&by_hand, 0));
    ASSERT_CUDA(cuGraphAddKernelNode(&triggering, by_hand, nullptr, 0, &kernel));
    kernel.func = wait;
    kernel.kernelParams = of_wait;
    ASSERT_CUDA(cuGraphAddKernelNode(&waiting, by_hand, &triggering, 1, &kernel));
    for (CUgraph graph : {captured, by_hand}) {
        CUgraphExec executable = nullptr;
        ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (int i = 0; i < 5; ++i) {
            expect([&] { EXPECT_CUDA(cuGraphLaunch(executable, work)); });
        }
        ASSERT_CUDA(cuGraphExecDestroy(executable));
        ASSERT_CUDA(cuGraphDestroy(graph));
    }
    destroy(at_a_, made);
}

void Kernels::partitions(const Memory& memory, bool graph)
{
    constexpr unsigned kBlocks = 4, kThreads = 128; // of a partition, of a block
    constexpr int kRounds = 10, kTimes = 3;
    const uint64_t before = counters(at_b_).completed;
    ASSERT_CUDA(cuCtxSetCurrent(memory.to));
    const CUfunction consumer = kernel("partitions", "sync_consume");
    auto* wrong = on_gpu<int>(kPartitions);
    CUstream to = stream();
    ugdr_condition_h receives = condition(at_b_, kPartitions);
    ASSERT_CUDA(cuCtxSetCurrent(memory.from));
    const CUfunction producer = kernel("partitions", "sync_produce");
    CUstream from = stream();
    ugdr_condition_h sends = condition(at_a_, kPartitions, kBlocks);
    for (unsigned i = 0; i < kPartitions; ++i) {
        const ugdr_op_param_t send = at(sends, i), receive = at(receives, i);
        constexpr size_t bytes = kLength * sizeof(int);
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, memory.out + i * kLength, bytes, i, &send, nullptr));
        ASSERT_UCS(
            ugdr_tag_recv(at_b_, memory.in + i * kLength, bytes, i, ~0ul, &receive, nullptr));
    }
    const ugdr_dev_condition_t sending = device(sends), receiving = device(receives);
    const auto produce_all = [&] {
        for (int round = 1; round <= kRounds; ++round) {
            launch(producer, kPartitions * kBlocks, kThreads, from,
                   {&sending, &memory.out, &kLength, &kBlocks, &round});
        }
    };
    const auto consume_all = [&] {
        for (int round = 1; round <= kRounds; ++round) {
            launch(consumer, kPartitions, kThreads, to,
                   {&receiving, &memory.in, &kLength, &round, &wrong});
        }
    };
    if (graph) {
        const auto captured = [](CUstream stream, const std::function<void()>& enqueue) {
            CUgraph made = nullptr;
            CUgraphExec executable = nullptr;
            EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
            enqueue();
            EXPECT_CUDA(cuStreamEndCapture(stream, &made));
            EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, made, 0));
            EXPECT_CUDA(cuGraphDestroy(made));
            return executable;
        };
        CUgraphExec producing = captured(from, produce_all), consuming = captured(to, consume_all);
        for (int i = 0; i < kTimes; ++i) {
            EXPECT_CUDA(cuGraphLaunch(producing, from));
            EXPECT_CUDA(cuGraphLaunch(consuming, to));
        }
        EXPECT_CUDA(cuStreamSynchronize(to));
        EXPECT_CUDA(cuStreamSynchronize(from));
        EXPECT_CUDA(cuGraphExecDestroy(producing));
        EXPECT_CUDA(cuGraphExecDestroy(consuming));
    } else {
        for (int i = 0; i < kTimes; ++i) {
            produce_all();
            consume_all();
        }
        EXPECT_CUDA(cuStreamSynchronize(to));
        EXPECT_CUDA(cuStreamSynchronize(from));
    }
    ASSERT_CUDA(cuCtxSetCurrent(memory.to));
    EXPECT_EQ(copy_of(wrong, kPartitions), std::vector<int>(kPartitions));
    ASSERT_CUDA(cuCtxSetCurrent(memory.from));
    EXPECT_EQ(counters(at_b_).completed - before, uint64_t{kPartitions} * kRounds * kTimes);
    destroy(at_a_, sends);
    destroy(at_b_, receives);
}

TEST_F(Kernels, PartitionsInHostMemory)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    constexpr size_t kAll = size_t{kPartitions} * kLength;
    partitions({context_, context_, pinned<int>(kAll), pinned<int>(kAll)}, false);
}

TEST_F(Kernels, PartitionsInGpuMemory)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    constexpr size_t kAll = size_t{kPartitions} * kLength;
    partitions({context_, context_, on_gpu<int>(kAll), on_gpu<int>(kAll)}, false);
}

TEST_F(Kernels, PartitionsInGraphs)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    constexpr size_t kAll = size_t{kPartitions} * kLength;
    partitions({context_, context_, on_gpu<int>(kAll), on_gpu<int>(kAll)}, true);
}

TEST_F(Kernels, PartitionsFromOneGpuToAnother)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    CUcontext other = second_gpu();
    if (other == nullptr) {
        GTEST_SKIP() << "there is one GPU";
    }
    constexpr size_t kAll = size_t{kPartitions} * kLength;
    int* out = on_gpu<int>(kAll);
    ASSERT_CUDA(cuCtxSetCurrent(other));
    int* in = on_gpu<int>(kAll);
    for (bool graph : {false, true}) {
        partitions({context_, other, out, in}, graph);
    }
}

} // namespace
} // namespace synctest
