// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two sides in this process whose kernels initiate operations.
#pragma once

#include "kernel_functions.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace synctest {

constexpr unsigned kChannels = 4, kLength = 32; // words of a slot

// The number of rounds in which nothing may go wrong.
inline unsigned rounds()
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

class Initiators : public Cuda {
  protected:
    // For what goes over rings.
    void SetUp() override
    {
        Cuda::SetUp();
        setenv("UCX_GDR_IPC", "n", 1); // read by each context
    }

    static constexpr size_t kWords = size_t{kChannels} * kSlots * kLength;

    // host: where the data and the signals are. ucp: over UCP.
    void connect(bool host, unsigned threads = 1, bool ucp = false)
    {
        for (Initiator* side : {&a_, &b_}) {
            prepare(*side, host, threads, ucp);
        }
        for (auto [near, far] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
            connect_peer(near->peer, far->peer);
        }
        for (auto [near, far] : {std::pair(&a_, &b_), std::pair(&b_, &a_)}) {
            near->far_in = import_memory(near->peer, far->mapped_in);
            near->far_signals = import_memory(near->peer, far->mapped_signals);
        }
    }

    // A side that is not connected.
    void prepare(Initiator& side, bool host, unsigned threads, bool ucp)
    {
        side.context = create_side(side.ucp, ucp);
        side.peer = create_peer(side.context, kChannels);
        ASSERT_NE(side.peer, nullptr);
        side.out = memory(host, kWords);
        side.in = memory(host, kWords);
        side.signals = memory(host, 2 * kChannels);
        side.statuses = on_gpu<int>(kChannels);
        side.mapped_out = map(side, side.out, kWords);
        side.mapped_in = map(side, side.in, kWords);
        side.mapped_signals = map(side, side.signals, 2 * kChannels);
        ugdr_device_params_t of_device{};
        of_device.field_mask = UGDR_DEVICE_PARAM_FIELD_CHANNELS | UGDR_DEVICE_PARAM_FIELD_ENTRIES |
                               UGDR_DEVICE_PARAM_FIELD_THREADS;
        of_device.channels = kChannels;
        of_device.entries = 128;
        of_device.threads = threads;
        ASSERT_UCS(ugdr_device_open(side.context, &of_device, &side.device));
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
    // Kernels of both sides, with a block for each channel on a GPU.
    void exchange(unsigned rounds, unsigned channels = kChannels,
                  const char* sender = "sync_send_rounds")
    {
        const CUfunction send = kernel("initiators", sender),
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

    // Each operation once. fetches: what an addition fetches is available.
    // adds: also to words of a GPU.
    void every_kind(bool adds)
    {
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
        EXPECT_EQ(copy_of(a_.statuses, 2)[1], adds ? UCS_OK : UCS_ERR_UNSUPPORTED);
        const auto there = copy_of(b_.in, 64), back = copy_of(a_.out, 192);
        for (unsigned i = 0; i < 16; ++i) {
            EXPECT_EQ(there[i], i + 1);
        }
        for (unsigned bytes = 1; bytes <= 8; ++bytes) {
            EXPECT_EQ(there[16 + bytes], 0x8877665544332211 & (~0ull >> (64 - 8 * bytes)));
        }
        EXPECT_EQ(there[32], adds ? 3 + (1ull << 63) : 0);
        EXPECT_EQ(copy_of(b_.signals, 1)[0], adds ? 5u : 0u);
        EXPECT_EQ(back[64], adds ? 3u : 65u);
        for (unsigned i = 0; i < 40; ++i) {
            EXPECT_EQ(back[128 + i], there[i]);
        }
    }

    Initiator a_, b_;
};

#define NEEDS_KERNELS()                                                                            \
    if (!have_kernels()) {                                                                         \
        GTEST_SKIP() << kNoKernels;                                                                \
    }

} // namespace synctest
