// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// GPUs that see what an HCA has written only after a flush: what UCP is told has arrived is
// visible.
#include "rc_support.hpp"

#include "emu/softcuda/softcuda.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace rc_test {
namespace {

constexpr size_t kLength = 64 << 10;

uint64_t flushes()
{
    return softcuda_call_count("cuFlushGPUDirectRDMAWrites");
}

// Two nodes that are connected, and a buffer on each: the sender's and the receiver's.
struct Pair {
    Pair(Memory memory, Memory remote_memory)
        : source(memory, kLength), target(remote_memory, kLength)
    {
        require(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }),
                "uct_ep_am_short");
        wait_until(nodes, [&] { return receiver.received_count == 1; });
        flush(nodes, ep);
    }

    template <class Operation>
    void start(Operation operation, uct_completion_t* completion)
    {
        const uct_iov_t piece = from.piece(source.data(), kLength);
        ASSERT_EQ(operation(ep, &piece, 1, target.address(), to.rkey(), completion),
                  UCS_INPROGRESS);
    }

    Node sender, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    Buffer source, target;
    Registered from{sender, source}, to{receiver, target};
    Endpoint ep{sender, receiver};
};

// Run by the tests below where the GPUs do not order an HCA's writes.
TEST(DISABLED_Visibility, OfWhatWasRead)
{
    Pair pair(Memory::device, Memory::host);
    pair.source.clear();
    pair.target.fill(1);
    struct Read : Completion {
        const Buffer* buffer;
        bool visible;
    } read;
    read.buffer = &pair.source;
    read.visible = false;
    read.func = [](uct_completion_t* self) {
        auto& ended = *static_cast<Read*>(self);
        ended.visible = ended.buffer->holds(1);
    };
    pair.start(uct_ep_get_zcopy, &read);
    ASSERT_TRUE(wait_until({&pair.sender}, [&] { return read.done(); }));
    EXPECT_TRUE(read.visible);
}

// The receiver learns of it by an active message, as in a rendezvous, and nobody else is
// progressed: in the first round from progress, in the second after it has looked whether it may
// sleep.
TEST(DISABLED_Visibility, OfWhatWasWritten)
{
    Pair pair(Memory::host, Memory::device);
    for (unsigned round = 0; round < 2; ++round) {
        pair.source.fill(round);
        pair.target.clear();
        bool visible = false;
        pair.receiver.on_message = [&] { visible = pair.target.holds(round); };
        Completion written;
        pair.start(uct_ep_put_zcopy, &written);
        ASSERT_EQ(uct_ep_am_short(pair.ep, 1, 0, nullptr, 0), UCS_OK);
        const size_t before = pair.receiver.received_count;
        if (round == 1) {
            const auto until = time(nullptr) + 20;
            while (uct_iface_event_arm(pair.receiver.iface(), UCT_EVENT_RECV) == UCS_OK &&
                   time(nullptr) < until) {
                usleep(1000);
            }
        }
        ASSERT_TRUE(
            wait_until({&pair.receiver}, [&] { return pair.receiver.received_count > before; }));
        EXPECT_TRUE(visible) << round;
        pair.receiver.on_message = nullptr;
        ASSERT_TRUE(wait_until(pair.nodes, [&] { return written.done(); }));
    }
}

// No device memory is registered: nothing to flush.
TEST(DISABLED_HostMemory, IsNotFlushed)
{
    Pair pair(Memory::host, Memory::host);
    EXPECT_EQ(flushes(), 0u);
}

Outcome run_unordered(const char* tests, const char* gpu_direct)
{
    return run_self({{"SOFTCUDA_RDMA_ORDERING", "flush"},
                     {"SOFTHCA_GPU_DIRECT", gpu_direct},
                     {"SOFTHCA_FABRIC", "rc_test-visibility-" + std::to_string(getpid())}},
                    {std::string("--gtest_filter=") + tests, "--gtest_also_run_disabled_tests"});
}

TEST(Visibility, IsSeenToWhereTheGpuDoesNotOrderWrites)
{
    for (const char* gpu_direct : {"dmabuf", "peermem"}) {
        const Outcome outcome = run_unordered("DISABLED_Visibility.*", gpu_direct);
        EXPECT_EQ(outcome.status, 0) << outcome.text;
        EXPECT_NE(outcome.text.find("[  PASSED  ] 2 tests"), std::string::npos) << outcome.text;
    }
    const Outcome host = run_unordered("DISABLED_HostMemory.*", "dmabuf");
    EXPECT_EQ(host.status, 0) << host.text;
}

TEST(Visibility, CostsNothingWhereTheGpuDoes)
{
    const uint64_t before = flushes();
    Pair pair(Memory::device, Memory::device);
    Completion written, read;
    pair.start(uct_ep_put_zcopy, &written);
    pair.start(uct_ep_get_zcopy, &read);
    ASSERT_TRUE(wait_until(pair.nodes, [&] { return written.done() && read.done(); }));
    EXPECT_EQ(flushes(), before);
}

} // namespace
} // namespace rc_test
