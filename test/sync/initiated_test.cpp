// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels initiate operations, on two sides that are connected: over queue pairs of the library's
// own, or over UCP.
#include "initiators_fixture.hpp"

#include <string>
#include <thread>
#include <utility>

namespace synctest {
namespace {

class Initiated : public Initiators {};

// Between two kernels that wait for each other: what a signal tells of is there.
TEST_F(Initiated, SignalsNeverBeforeDataInGpuMemory)
{
    NEEDS_KERNELS();
    connect(false);
    exchange(rounds(), 1);
}

TEST_F(Initiated, SignalsNeverBeforeDataInHostMemory)
{
    NEEDS_KERNELS();
    connect(true);
    exchange(rounds() / 10, 2);
}

TEST_F(Initiated, SeveralThreadsServe)
{
    NEEDS_KERNELS();
    connect(false, 3);
    exchange(2000);
}

TEST_F(Initiated, SignalsNeverBeforeDataOverUcp)
{
    NEEDS_KERNELS();
    connect(true, 1, true);
    exchange(rounds() / 100, 2);
}

// Where both sides have HCAs and an endpoint tells of its peer's death, later ones add nothing:
// ucp_atomic_op_nbx() does not return, or the operation is cancelled.
bool ucp_adds()
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    return minor < 16;
}

TEST_F(Initiated, EveryKind)
{
    NEEDS_KERNELS();
    for (const auto& [host, ucp] : {std::pair(false, false), std::pair(true, false),
                                    std::pair(false, true), std::pair(true, true)}) {
        SCOPED_TRACE(std::string(host ? "host" : "GPU") + (ucp ? ", UCP" : ""));
        if (host && ucp && !ucp_adds()) {
            continue;
        }
        connect(host, 1, ucp);
        every_kind(host || !ucp); // UCP adds by the CPU
        TearDown();
    }
}

// A kernel's mistake ends with a status, in the kernel and in the context.
TEST_F(Initiated, WrongIds)
{
    NEEDS_KERNELS();
    connect(false);
    Exchange with = a_.exchange(0, 1);
    with.rmem += 12345;
    CUstream work = stream();
    launch(kernel("initiators", "sync_send_rounds"), 1, 32, work, {&with});
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_ERR_INVALID_PARAM);
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_STATUS;
    EXPECT_UCS(ugdr_context_query(a_.context, &attr));
    EXPECT_EQ(attr.status, UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(copy_of(b_.signals, 1)[0], 0u);
}

// What the other side has taken back is refused there; kernels that wait go on.
TEST_F(Initiated, MemoryThatIsGone)
{
    NEEDS_KERNELS();
    connect(false);
    ASSERT_UCS(ugdr_mem_unmap(b_.mapped_in));
    b_.mapped_in = nullptr;
    const Exchange with = a_.exchange(0, 2 * kSlots); // waits for what the peer never says
    CUstream work = stream();
    launch(kernel("initiators", "sync_send_rounds"), 1, 32, work, {&with});
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(copy_of(b_.signals, 1)[0], 0u);
}

// A peer that does not answer any more ends the operations to it, and nothing else.
TEST_F(Initiated, PeerThatIsGone)
{
    NEEDS_KERNELS();
    connect(false);
    EXPECT_UCS(ugdr_context_destroy(b_.context, UGDR_DESTROY_FORCE));
    b_.forget();
    const Exchange with = a_.exchange(0, 2 * kSlots);
    CUstream work = stream();
    launch(kernel("initiators", "sync_send_rounds"), 1, 32, work, {&with});
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(ugdr_peer_test(a_.peer), UCS_ERR_ENDPOINT_TIMEOUT);
}

// What is read is there when a kernel is told.
TEST_F(Initiated, DISABLED_FlushedBeforeAKernelGoesOn)
{
    connect(false);
    const Exchange with = a_.exchange(1, 1);
    CUstream work = stream();
    const uint64_t before = SOFTCUDA(softcuda_call_count)("cuFlushGPUDirectRDMAWrites");
    launch(kernel("initiators", "sync_every_kind"), 1, 32, work, {&with});
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_GT(SOFTCUDA(softcuda_call_count)("cuFlushGPUDirectRDMAWrites"), before);
    EXPECT_EQ(with.device.signals, 0u);
}

// ---- opening and closing

TEST_F(Initiated, WhatIsRefused)
{
    ugdr_context_params_t none{};
    ugdr_context_h context = create(none);
    const auto open = [&](ugdr_device_params_t params) {
        ugdr_device_h device = nullptr;
        return ugdr_device_open(context, &params, &device);
    };
    for (unsigned channels : {0u, 3u, 128u}) {
        EXPECT_EQ(open({UGDR_DEVICE_PARAM_FIELD_CHANNELS, channels, 0, 0}), UCS_ERR_INVALID_PARAM);
    }
    for (unsigned entries : {0u, 8u, 100u, 1u << 17}) {
        EXPECT_EQ(open({UGDR_DEVICE_PARAM_FIELD_ENTRIES, 0, entries, 0}), UCS_ERR_INVALID_PARAM);
    }
    for (unsigned threads : {0u, 5u}) {
        EXPECT_EQ(open({UGDR_DEVICE_PARAM_FIELD_THREADS, 0, 0, threads}), UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(open({UCS_BIT(7), 0, 0, 0}), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_device_open(context, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_device_close(nullptr), UCS_ERR_INVALID_PARAM);
    ugdr_device_h device = nullptr, second = nullptr;
    ASSERT_UCS(ugdr_device_open(context, nullptr, &device));
    EXPECT_EQ(ugdr_device_handle(device, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_device_open(context, nullptr, &second), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_context_destroy(context, 0), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_device_close(device));
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    EXPECT_EQ(ugdr_device_open(context, nullptr, &device), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// Again and again, on memory that the last one used: nothing of that is left.
TEST_F(Initiated, OpenedAgain)
{
    NEEDS_KERNELS();
    connect(false);
    for (int i = 0; i < 3; ++i) {
        exchange(200); // laps end within
        ASSERT_CUDA(cuMemsetD8(address_of(a_.signals), 0, 2 * kChannels * 8));
        ASSERT_CUDA(cuMemsetD8(address_of(b_.signals), 0, 2 * kChannels * 8));
        for (Initiator* side : {&a_, &b_}) {
            ugdr_device_params_t same{};
            same.field_mask = UGDR_DEVICE_PARAM_FIELD_ENTRIES;
            same.entries = 128;
            ASSERT_UCS(ugdr_device_close(side->device));
            ASSERT_UCS(ugdr_device_open(side->context, &same, &side->device));
        }
    }
}

// The application makes the progress.
TEST_F(Initiated, ProgressByTheCaller)
{
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_PROGRESS;
    params.progress = UGDR_PROGRESS_CALLER;
    ugdr_context_h context = create(params);
    ugdr_device_h device = nullptr;
    ASSERT_UCS(ugdr_device_open(context, nullptr, &device));
    ugdr_dev_t handle{};
    ASSERT_UCS(ugdr_device_handle(device, &handle));
    if (const auto alias = SOFTCUDA(softcuda_host_alias)) {
        handle.counters = static_cast<unsigned long long*>(alias(handle.counters, 8));
        const auto ticket = ugdr_dev_put_value(handle, 0, 1, 1, 99, 0); // of nothing
        EXPECT_EQ(ugdr_device_close(device), UCS_ERR_BUSY);
        EXPECT_FALSE(ugdr_dev_done(handle, 0, ticket));
        EXPECT_TRUE(eventually([&] {
            ugdr_progress(context);
            return ugdr_dev_done(handle, 0, ticket);
        }));
        EXPECT_EQ(ugdr_dev_quiet(handle, 0), UCS_ERR_INVALID_PARAM);
    }
    EXPECT_UCS(ugdr_device_close(device));
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// Kernels that wait for what never comes go on.
TEST_F(Initiated, ForcedWhileKernelsWait)
{
    NEEDS_KERNELS();
    connect(false, 2);
    const Exchange with = b_.exchange(0, 10);
    const CUfunction receive = kernel("initiators", "sync_receive_rounds");
    CUstream work = stream();
    launch(receive, 1, 32, work, {&with});
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_UCS(ugdr_context_destroy(b_.context, UGDR_DESTROY_FORCE));
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(b_.statuses, 1)[0], UCS_ERR_CANCELED);
    b_.forget();
}

} // namespace
} // namespace synctest
