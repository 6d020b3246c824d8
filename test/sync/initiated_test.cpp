// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels initiate operations, on two sides that are connected: over queue pairs of the library's
// own, or over UCP.
#include "kernel_functions.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace synctest {
namespace {

constexpr unsigned kChannels = 4, kLength = 32; // words of a slot

// The number of rounds in which nothing may go wrong.
unsigned rounds()
{
    const char* text = std::getenv("SYNC_ROUNDS");
    return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 100000;
}

// A context, a peer and a device; and memory that the other side writes.
struct Initiator {
    std::optional<Worker> ucp{}; // its UCP context
    ugdr_context_h context = nullptr;
    ugdr_peer_h peer = nullptr;
    ugdr_device_h device = nullptr;
    unsigned long long *out = nullptr, *in = nullptr, *signals = nullptr;
    int* statuses = nullptr;
    ugdr_mem_h mapped_out = nullptr, mapped_in = nullptr, mapped_signals = nullptr;
    ugdr_rmem_h far_in = nullptr, far_signals = nullptr;

    // Its context has ended, and all with it.
    void forget()
    {
        context = nullptr;
        peer = nullptr;
        device = nullptr;
        mapped_out = mapped_in = mapped_signals = nullptr;
        far_in = far_signals = nullptr;
    }

    Exchange exchange(unsigned first, unsigned rounds) const
    {
        Exchange with{};
        EXPECT_UCS(ugdr_device_handle(device, &with.device));
        with.out = out;
        with.in = in;
        with.signals = signals;
        with.statuses = statuses;
        with.mem = ugdr_mem_id(mapped_out);
        with.rmem = ugdr_rmem_id(far_in);
        with.rsignals = ugdr_rmem_id(far_signals);
        with.first = first;
        with.rounds = rounds;
        with.length = kLength;
        return with;
    }
};

class Initiated : public Cuda {
  protected:
    static constexpr size_t kWords = size_t{kChannels} * kSlots * kLength;

    // host: where the data and the signals are. ucp: over UCP.
    void connect(bool host, unsigned threads = 1, bool ucp = false)
    {
        for (Initiator* side : {&a_, &b_}) {
            ugdr_context_params_t params{};
            if (ucp) {
                side->ucp.emplace();
                params.field_mask =
                    UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT | UGDR_CONTEXT_PARAM_FIELD_FLAGS;
                params.ucp_context = side->ucp->context;
                params.flags = UGDR_CONTEXT_FLAG_NO_DIRECT;
            }
            side->context = create(params);
            ugdr_peer_params_t of_peer{};
            of_peer.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
            of_peer.channels = kChannels;
            ASSERT_UCS(ugdr_peer_create(side->context, &of_peer, &side->peer));
            side->out = memory(host, kWords);
            side->in = memory(host, kWords);
            side->signals = memory(host, 2 * kChannels);
            side->statuses = on_gpu<int>(kChannels);
            side->mapped_out = map(*side, side->out, kWords);
            side->mapped_in = map(*side, side->in, kWords);
            side->mapped_signals = map(*side, side->signals, 2 * kChannels);
            ugdr_device_params_t of_device{};
            of_device.field_mask = UGDR_DEVICE_PARAM_FIELD_CHANNELS |
                                   UGDR_DEVICE_PARAM_FIELD_ENTRIES |
                                   UGDR_DEVICE_PARAM_FIELD_THREADS;
            of_device.channels = kChannels;
            of_device.entries = 128;
            of_device.threads = threads;
            ASSERT_UCS(ugdr_device_open(side->context, &of_device, &side->device));
        }
        for (auto [near, far] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
            const void* blob = nullptr;
            size_t length = 0;
            ASSERT_UCS(ugdr_peer_export(far->peer, &blob, &length));
            ASSERT_UCS(ugdr_peer_connect(near->peer, blob, length));
        }
        for (auto [near, far] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
            near->far_in = import(*near, far->mapped_in);
            near->far_signals = import(*near, far->mapped_signals);
        }
    }

    void TearDown() override
    {
        for (Initiator* side : {&a_, &b_}) {
            if (side->device != nullptr) {
                EXPECT_UCS(ugdr_device_close(side->device));
            }
            for (ugdr_rmem_h rmem : {side->far_in, side->far_signals}) {
                if (rmem != nullptr) {
                    EXPECT_UCS(ugdr_rmem_release(rmem));
                }
            }
            if (side->peer != nullptr) {
                EXPECT_UCS(ugdr_peer_destroy(side->peer));
            }
            for (ugdr_mem_h mem : {side->mapped_out, side->mapped_in, side->mapped_signals}) {
                if (mem != nullptr) {
                    EXPECT_UCS(ugdr_mem_unmap(mem));
                }
            }
            if (side->context != nullptr) {
                EXPECT_UCS(ugdr_context_destroy(side->context, 0));
            }
        }
        for (Initiator* side : {&a_, &b_}) {
            side->forget();
            side->ucp.reset();
        }
    }

    unsigned long long* memory(bool host, size_t words)
    {
        if (!host) {
            return on_gpu<unsigned long long>(words);
        }
        auto* made = pinned<unsigned long long>(words);
        std::memset(made, 0, words * sizeof(*made));
        return made;
    }
    static ugdr_mem_h map(const Initiator& side, unsigned long long* memory, size_t words)
    {
        ugdr_mem_h made = nullptr;
        EXPECT_UCS(ugdr_mem_map(side.context, memory, words * sizeof(*memory), &made));
        return made;
    }
    static ugdr_rmem_h import(const Initiator& side, ugdr_mem_h far)
    {
        const void* blob = nullptr;
        size_t length = 0;
        ugdr_rmem_h made = nullptr;
        EXPECT_UCS(ugdr_mem_export(far, &blob, &length));
        EXPECT_UCS(ugdr_rmem_import(side.peer, blob, length, &made));
        return made;
    }

    // Kernels of both sides, with a block for each channel on a GPU.
    void exchange(unsigned rounds, unsigned channels = kChannels)
    {
        const CUfunction send = kernel("initiators", "sync_send_rounds"),
                         receive = kernel("initiators", "sync_receive_rounds");
        std::vector<CUstream> streams;
        for (unsigned channel = 0; channel < channels; ++channel) {
            const Exchange from = a_.exchange(channel, rounds), to = b_.exchange(channel, rounds);
            streams.push_back(stream());
            launch(send, 1, 32, streams.back(), {&from});
            streams.push_back(stream());
            launch(receive, 1, 32, streams.back(), {&to});
        }
        for (CUstream stream : streams) {
            EXPECT_CUDA(cuStreamSynchronize(stream));
            EXPECT_CUDA(cuStreamDestroy(stream));
        }
        for (const Initiator* side : {&a_, &b_}) {
            EXPECT_EQ(copy_of(side->statuses, kChannels), std::vector<int>(kChannels, UCS_OK));
        }
    }

    Initiator a_, b_;
};

#define NEEDS_KERNELS()                                                                            \
    if (!have_kernels()) {                                                                         \
        GTEST_SKIP() << kNoKernels;                                                                \
    }

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

TEST_F(Initiated, EveryKind)
{
    NEEDS_KERNELS();
    for (const auto& [host, ucp] : {std::pair(false, false), std::pair(true, false),
                                    std::pair(false, true), std::pair(true, true)}) {
        SCOPED_TRACE(std::string(host ? "host" : "GPU") + (ucp ? ", UCP" : ""));
        connect(host, 1, ucp);
        std::vector<unsigned long long> numbers(kWords);
        for (size_t i = 0; i < kWords; ++i) {
            numbers[i] = i + 1;
        }
        ASSERT_CUDA(
            cuMemcpy(address_of(a_.out), address_of(numbers.data()), kWords * sizeof(numbers[0])));
        const Exchange with = a_.exchange(1, 1);
        CUstream work = stream();
        launch(kernel("initiators", "sync_every_kind"), 1, 32, work, {&with});
        ASSERT_CUDA(cuStreamSynchronize(work));
        const bool fetches = host || !ucp; // UCP has the CPU write what it fetches
        EXPECT_EQ(copy_of(a_.statuses, 2)[1], fetches ? UCS_OK : UCS_ERR_UNSUPPORTED);
        const auto there = copy_of(b_.in, 64), back = copy_of(a_.out, 192);
        for (unsigned i = 0; i < 16; ++i) {
            EXPECT_EQ(there[i], i + 1);
        }
        for (unsigned bytes = 1; bytes <= 8; ++bytes) {
            EXPECT_EQ(there[16 + bytes], 0x8877665544332211 & (~0ull >> (64 - 8 * bytes)));
        }
        EXPECT_EQ(there[32], fetches ? 3 + (1ull << 63) : 3);
        EXPECT_EQ(copy_of(b_.signals, 1)[0], 5u);
        EXPECT_EQ(back[64], fetches ? 3u : 65u);
        for (unsigned i = 0; i < 40; ++i) {
            EXPECT_EQ(back[128 + i], there[i]);
        }
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
