// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The copy interface through UCT's public calls, on softcuda: every pair of memories, any context,
// many copies in flight, sleeping, and addresses that are no memory (any more).
#include "copy_support.hpp"

#include "abi/layout_1_13.hpp"
#include "copy/performance.hpp"
#include "emu/softcuda/softcuda.h"
#include "stats/statistics.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/mman.h>

extern "C" {
#include <ucm/api/ucm.h>
}

// Not in an installed header of 1.13.
extern "C" ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const void* params);

namespace copy_test {

namespace {

// In place before CUDA is initialised: with a delay, what does not wait for a copy is seen not to.
const bool kEnvironment = [] {
    setenv("SOFTCUDA_COPY_LATENCY_US", std::to_string(kCopyLatencyMicroseconds).c_str(), 1);
    setenv("SOFTCUDA_DEVICES", "2", 1);
    return true;
}();

uct_iov_t piece(void* buffer, size_t length)
{
    uct_iov_t iov = {};
    iov.buffer = buffer;
    iov.length = length;
    iov.memh = UCT_MEM_HANDLE_NULL;
    iov.count = 1;
    return iov;
}

enum class Operation { put_short, get_short, put_zcopy, get_zcopy };

// From source to destination.
void copy(Transport& transport, Operation operation, const Buffer& destination,
          const Buffer& source, size_t length)
{
    Completion completion;
    uct_iov_t from = piece(source.data(), length);
    uct_iov_t to = piece(destination.data(), length);
    switch (operation) {
    case Operation::put_short:
        ASSERT_EQ(uct_ep_put_short(transport.ep(), source.data(), length, destination.address(), 0),
                  UCS_OK);
        return;
    case Operation::get_short:
        ASSERT_EQ(uct_ep_get_short(transport.ep(), destination.data(), length, source.address(), 0),
                  UCS_OK);
        return;
    case Operation::put_zcopy:
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &from, 1, destination.address(), 0, &completion),
                  UCS_INPROGRESS);
        break;
    case Operation::get_zcopy:
        ASSERT_EQ(uct_ep_get_zcopy(transport.ep(), &to, 1, source.address(), 0, &completion),
                  UCS_INPROGRESS);
        break;
    }
    ASSERT_FALSE(completion.done()) << "completed before progress";
    transport.wait(completion);
    ASSERT_EQ(completion.status, UCS_OK);
}

constexpr Operation kOperations[] = {Operation::put_short, Operation::get_short,
                                     Operation::put_zcopy, Operation::get_zcopy};

} // namespace

// ---- data

class Pairs : public testing::TestWithParam<std::tuple<Memory, Memory>> {};

TEST_P(Pairs, EveryOperationAndSize)
{
    auto [from, to] = GetParam();
    Transport transport;
    unsigned seed = 0;
    for (size_t length : {0ul, 1ul, 7ul, 8ul, 63ul, 4095ul, 4097ul, 65536ul, 1048576ul}) {
        Buffer source(from, length);
        Buffer destination(to, length);
        for (Operation operation : kOperations) {
            source.fill(++seed);
            destination.clear();
            copy(transport, operation, destination, source, length);
            ASSERT_TRUE(destination.holds(seed))
                << length << " bytes, operation " << int(operation);
            ASSERT_TRUE(source.holds(seed));
        }
    }
}

constexpr Memory kMemories[] = {Memory::host, Memory::pinned, Memory::device, Memory::managed};

INSTANTIATE_TEST_SUITE_P(
    Memory, Pairs, testing::Combine(testing::ValuesIn(kMemories), testing::ValuesIn(kMemories)),
    [](const auto& info) {
        return name_of(std::get<0>(info.param)) + "_to_" + name_of(std::get<1>(info.param));
    });

TEST(Copy, ThirtyThreeMebibytes)
{
    constexpr size_t kLength = 33 << 20;
    Transport transport;
    Buffer host(Memory::host, kLength), device(Memory::device, kLength),
        managed(Memory::managed, kLength), back(Memory::pinned, kLength);
    host.fill(1);
    copy(transport, Operation::put_zcopy, device, host, kLength);
    copy(transport, Operation::get_zcopy, managed, device, kLength);
    copy(transport, Operation::put_short, back, managed, kLength);
    EXPECT_TRUE(back.holds(1));
}

TEST(Copy, IovOfDifferentMemories)
{
    Transport transport;
    for (Memory remote_memory : kMemories) {
        Buffer host(Memory::host, 1000), device(Memory::device, 500), managed(Memory::managed, 77);
        Buffer remote(remote_memory, 1577);
        uct_iov_t iov[] = {piece(host.data(), 0), piece(host.data(), 1000), piece(nullptr, 0),
                           piece(device.data(), 500), piece(managed.data(), 77)};
        host.fill(1), device.fill(2), managed.fill(3);
        Completion put;
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), iov, 5, remote.address(), 0, &put),
                  UCS_INPROGRESS);
        transport.wait(put);
        EXPECT_TRUE(remote.holds(1, 0, 1000) && remote.holds(2, 1000, 500) &&
                    remote.holds(3, 1500, 77));

        remote.fill(9);
        Completion get;
        ASSERT_EQ(uct_ep_get_zcopy(transport.ep(), iov, 5, remote.address(), 0, &get),
                  UCS_INPROGRESS);
        transport.wait(get);
        EXPECT_TRUE(host.holds(9) && device.holds(9, 0, 500, 1000) &&
                    managed.holds(9, 0, 77, 1500));
    }
}

TEST(Copy, StridedIov)
{
    Transport transport;
    Buffer source(Memory::device, 1000), destination(Memory::pinned, 300);
    source.fill(4);
    uct_iov_t iov = piece(source.data(), 100);
    iov.stride = 400;
    iov.count = 3;
    Completion completion;
    ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, destination.address(), 0, &completion),
              UCS_INPROGRESS);
    transport.wait(completion);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(destination.holds(4, 100 * i, 100, 400 * i));
    }
}

TEST(Copy, NothingToCopyCompletesFromProgress)
{
    Transport transport;
    uct_iov_t iov = piece(nullptr, 0);
    for (size_t count : {0, 1}) {
        Completion put, get;
        EXPECT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, count, 0, 0, &put), UCS_INPROGRESS);
        EXPECT_EQ(uct_ep_get_zcopy(transport.ep(), &iov, count, 0, 0, &get), UCS_INPROGRESS);
        EXPECT_FALSE(put.done() || get.done());
        transport.wait(put);
        transport.wait(get);
    }
    EXPECT_EQ(uct_ep_put_short(transport.ep(), nullptr, 0, 0, 0), UCS_OK);
    EXPECT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, 0, 0, nullptr), UCS_INPROGRESS);
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_INPROGRESS);
    uct_iface_progress(transport.iface());
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_OK);
}

TEST(Copy, PlainHostMemoryIsNotCudas)
{
    Transport transport;
    Buffer source(Memory::host, 100000), destination(Memory::host, 100000);
    source.fill(1);
    uint64_t before = softcuda_call_count("cuMemcpyAsync");
    copy(transport, Operation::put_zcopy, destination, source, 100000);
    copy(transport, Operation::get_short, destination, source, 100000);
    EXPECT_EQ(softcuda_call_count("cuMemcpyAsync"), before);
    EXPECT_TRUE(destination.holds(1));
}

// ---- waiting

// Calls of the driver by a copy_now.
struct Calls {
    uint64_t created = softcuda_call_count("cuEventCreate");
    uint64_t recorded = softcuda_call_count("cuEventRecord");
    uint64_t queries = softcuda_call_count("cuEventQuery");
    uint64_t waits = softcuda_call_count("cuStreamSynchronize");

    Calls operator-(const Calls& before) const
    {
        return {created - before.created, recorded - before.recorded, queries - before.queries,
                waits - before.waits};
    }
};

Calls calls_of(Transport& transport, Operation operation, const Buffer& destination,
               const Buffer& source, size_t length)
{
    const Calls before;
    copy(transport, operation, destination, source, length);
    return Calls() - before;
}

constexpr uint64_t kMostQueries = 1000;

TEST(Waiting, AnEventTellsOfCopiesToPinnedMemory)
{
    Transport transport;
    Buffer device(Memory::device, 2 << 20), host(Memory::pinned, 2 << 20);
    device.fill(5);
    for (size_t length : {8, 8192, 1 << 20}) {
        host.clear();
        const Calls calls = calls_of(transport, Operation::get_short, host, device, length);
        EXPECT_TRUE(host.holds(5, 0, length));
        EXPECT_EQ(calls.recorded, 1u) << length;
        EXPECT_GE(calls.queries, 1u);
        EXPECT_LE(calls.queries, kMostQueries);
        EXPECT_TRUE(calls.waits == 0 || calls.queries == kMostQueries) << calls.queries;
        EXPECT_EQ(calls.created, length == 8 ? 1u : 0u);
    }
    const Calls large = calls_of(transport, Operation::get_short, host, device, 2 << 20);
    EXPECT_TRUE(host.holds(5));
    EXPECT_EQ(large.recorded, 0u);
    EXPECT_EQ(large.waits, 1u);
}

TEST(Waiting, AnEventTellsOfLongerCopiesToTheDevice)
{
    Transport transport;
    Buffer host(Memory::pinned, 2 << 20), device(Memory::device, 2 << 20);
    host.fill(6);
    for (size_t length : {8, 16 << 10, 32 << 10, 1 << 20, 2 << 20}) {
        device.clear();
        const Calls calls = calls_of(transport, Operation::put_short, device, host, length);
        EXPECT_TRUE(device.holds(6, 0, length));
        const bool by_event = length >= 32 << 10 && length <= 1 << 20;
        EXPECT_EQ(calls.recorded, by_event ? 1u : 0u) << length;
        if (!by_event) {
            EXPECT_EQ(calls.waits, 1u) << length;
        }
    }
}

TEST(Waiting, TheStreamTellsOfOtherCopies)
{
    Transport transport;
    Buffer device(Memory::device, 8192), other(Memory::device, 8192), host(Memory::host, 8192);
    for (const Buffer* destination : {&other, &host}) {
        const Calls calls = calls_of(transport, Operation::get_short, *destination, device, 8192);
        EXPECT_EQ(calls.recorded, 0u);
        EXPECT_EQ(calls.waits, 1u);
    }
}

TEST(Waiting, NoEventForOtherProcessesWithoutIpc)
{
    setenv("SOFTCUDA_IPC", "off", 1);
    Transport transport;
    Buffer device(Memory::device, 8192), host(Memory::pinned, 8192);
    for (uint64_t tried : {1, 0}) {
        device.fill(static_cast<unsigned>(tried) + 7);
        const Calls calls = calls_of(transport, Operation::get_short, host, device, 8192);
        EXPECT_TRUE(host.holds(static_cast<unsigned>(tried) + 7));
        EXPECT_EQ(calls.created, tried);
        EXPECT_EQ(calls.recorded, 0u);
        EXPECT_EQ(calls.waits, 1u);
    }
    unsetenv("SOFTCUDA_IPC");
}

// ---- contexts

// Copies to and from memory of the context in every situation of the calling thread.
void copy_in_any_situation(CUcontext of_memory, CUcontext other)
{
    for (CUcontext current : {static_cast<CUcontext>(nullptr), of_memory, other}) {
        Transport transport;
        Buffer host(Memory::host, 5000), device(Memory::device, 5000, of_memory),
            back(Memory::host, 5000);
        Current situation(current);
        for (Operation operation : kOperations) {
            host.fill(3), device.clear(), back.clear();
            copy(transport, operation, device, host, 5000);
            copy(transport, operation, back, device, 5000);
            EXPECT_TRUE(back.holds(3));
            CUcontext after;
            require(cuCtxGetCurrent(&after), "cuCtxGetCurrent");
            EXPECT_EQ(after, current);
        }
    }
}

TEST(Contexts, Primary)
{
    copy_in_any_situation(primary_context(0), primary_context(1));
}

TEST(Contexts, OfTheApplication)
{
    primary_context(0);
    CUcontext own;
    require(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_AUTO, 1), "cuCtxCreate");
    require(cuCtxPopCurrent(&own), "cuCtxPopCurrent");
    copy_in_any_situation(own, primary_context(0));
    require(cuCtxDestroy(own), "cuCtxDestroy");
}

TEST(Contexts, TwoDevices)
{
    Transport transport;
    for (Memory from : {Memory::host, Memory::device, Memory::pool}) {
        for (Memory to : {Memory::host, Memory::device, Memory::pool}) {
            for (auto [here, there] : {std::pair{0, 1}, std::pair{1, 0}}) {
                Buffer source(from, 70000, primary_context(here));
                Buffer destination(to, 70000, primary_context(there));
                for (Operation operation : kOperations) {
                    source.fill(8), destination.clear();
                    copy(transport, operation, destination, source, 70000);
                    EXPECT_TRUE(destination.holds(8)) << name_of(from) << " to " << name_of(to);
                }
            }
        }
    }
}

TEST(Contexts, DeviceReset)
{
    Transport transport;
    CUcontext context = primary_context(1);
    Buffer host(Memory::pinned, 5000);
    Buffer device(Memory::device, 5000, context);
    uct_iov_t iov = piece(host.data(), 5000);
    Completion lost;
    ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &lost),
              UCS_INPROGRESS);
    require(cuDevicePrimaryCtxReset(1), "cuDevicePrimaryCtxReset");
    device.forget();

    Buffer again(Memory::device, 5000, primary_context(1));
    host.fill(5);
    copy(transport, Operation::put_zcopy, again, host, 5000);
    EXPECT_TRUE(again.holds(5));
    transport.wait(lost); // by success or error, as far as it got; but it ends
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_OK);
}

// A GPU that is reset takes the copies in flight along.
TEST(Contexts, FailedCopiesAreLoggedOnce)
{
    Transport transport;
    Buffer host(Memory::pinned, 5000);
    uct_iov_t iov = piece(host.data(), 5000);
    testing::internal::CaptureStdout();
    for (int round = 0; round < 3; ++round) {
        Buffer device(Memory::device, 5000, primary_context(1));
        Completion lost(20);
        for (int i = 0; i < 20; ++i) {
            ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &lost),
                      UCS_INPROGRESS);
        }
        require(cuDevicePrimaryCtxReset(1), "cuDevicePrimaryCtxReset");
        device.forget();
        Buffer again(Memory::device, 5000, primary_context(1));
        copy(transport, Operation::put_zcopy, again, host, 5000);
        transport.wait(lost);
    }
    const std::string log = testing::internal::GetCapturedStdout();
    const size_t first = log.find("a copy on GPU 1 failed");
    EXPECT_TRUE(first == log.npos || log.find("a copy on GPU", first + 1) == log.npos) << log;
}

// ---- order and amount

TEST(Flight, ManyCopiesAndNothingAllocatedInTheSteadyState)
{
    constexpr size_t kCopies = 1000, kLength = 64;
    Transport transport;
    Buffer source(Memory::pinned, kCopies * kLength), device(Memory::device, kCopies * kLength),
        back(Memory::pinned, kCopies * kLength);
    source.fill(1);
    auto batch = [&] {
        Completion puts(kCopies), gets(kCopies);
        for (size_t i = 0; i < kCopies; ++i) {
            uct_iov_t iov = piece(source.data() + i * kLength, kLength);
            ASSERT_EQ(
                uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address() + i * kLength, 0, &puts),
                UCS_INPROGRESS);
        }
        uct_pending_req_t waiting = {};
        EXPECT_EQ(uct_ep_pending_add(transport.ep(), &waiting, 0), UCS_ERR_BUSY);
        transport.wait(puts);
        for (size_t i = 0; i < kCopies; ++i) {
            uct_iov_t iov = piece(back.data() + i * kLength, kLength);
            ASSERT_EQ(
                uct_ep_get_zcopy(transport.ep(), &iov, 1, device.address() + i * kLength, 0, &gets),
                UCS_INPROGRESS);
        }
        transport.wait(gets);
    };
    batch();
    EXPECT_TRUE(back.holds(1));
    uint64_t events = softcuda_call_count("cuEventCreate");
    uint64_t streams = softcuda_call_count("cuStreamCreate");
    uint64_t contexts = softcuda_call_count("cuDevicePrimaryCtxRetain");
    source.fill(2);
    batch();
    EXPECT_TRUE(back.holds(2));
    EXPECT_EQ(softcuda_call_count("cuEventCreate"), events);
    EXPECT_EQ(softcuda_call_count("cuStreamCreate"), streams);
    EXPECT_GE(softcuda_call_count("cuDevicePrimaryCtxRetain"), contexts);
}

TEST(Flight, FlushEndsAfterWhatWasInFlight)
{
    Transport transport;
    Buffer host(Memory::pinned, 4096), device(Memory::device, 4096), other(Memory::device, 4096);
    EXPECT_EQ(uct_ep_flush(transport.ep(), 0, nullptr), UCS_OK);
    Completion copies(20), flush;
    for (int i = 0; i < 10; ++i) {
        uct_iov_t iov = piece(host.data(), 4096);
        uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &copies);
        iov = piece(device.data(), 4096);
        uct_ep_put_zcopy(transport.ep(), &iov, 1, other.address(), 0, &copies);
    }
    EXPECT_EQ(uct_ep_flush(transport.ep(), 0, &flush), UCS_INPROGRESS);
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_INPROGRESS);
    Completion later;
    uct_iov_t iov = piece(host.data(), 4096);
    uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &later);
    while (!flush.done()) {
        uct_iface_progress(transport.iface());
        ASSERT_TRUE(!flush.done() || copies.done());
    }
    transport.wait(later);
    EXPECT_EQ(uct_ep_flush(transport.ep(), 0, nullptr), UCS_OK);
}

TEST(Flight, FenceOrdersStreams)
{
    Transport transport;
    Buffer host(Memory::pinned, 4096), device(Memory::device, 4096),
        elsewhere(Memory::device, 4096), back(Memory::pinned, 4096);
    device.fill(1);
    host.fill(2);
    Completion completion(12);
    uct_iov_t iov = piece(host.data(), 4096);
    for (int i = 0; i < 10; ++i) { // 2 ms
        uct_ep_put_zcopy(transport.ep(), &iov, 1, elsewhere.address(), 0, &completion);
    }
    uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &completion);
    ASSERT_EQ(uct_ep_fence(transport.ep(), 0), UCS_OK);
    iov = piece(back.data(), 4096);
    uct_ep_get_zcopy(transport.ep(), &iov, 1, device.address(), 0, &completion);
    transport.wait(completion);
    EXPECT_TRUE(back.holds(2));
}

struct Chain : Completion {
    Transport* transport;
    uct_iov_t iov;
    uint64_t remote;
    int left;
};

TEST(Flight, CompletionsMayStartCopies)
{
    Transport transport;
    Buffer host(Memory::host, 64), device(Memory::device, 64), copy_of_host(Memory::host, 64);
    for (uint64_t remote : {device.address(), copy_of_host.address()}) {
        Chain chain;
        chain.transport = &transport;
        chain.iov = piece(host.data(), 64);
        chain.remote = remote;
        chain.left = 5;
        chain.func = [](uct_completion_t* self) {
            auto* chain = static_cast<Chain*>(self);
            if (--chain->left > 0) {
                chain->count = 1;
                uct_ep_put_zcopy(chain->transport->ep(), &chain->iov, 1, chain->remote, 0, chain);
            }
        };
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &chain.iov, 1, remote, 0, &chain),
                  UCS_INPROGRESS);
        int rounds = 0;
        while (chain.left > 0 && ++rounds < 10000000) {
            int before = chain.left;
            uct_iface_progress(transport.iface());
            ASSERT_GE(chain.left, before - 1) << "one progress call ran the chain";
        }
        EXPECT_EQ(chain.left, 0);
    }
}

unsigned progress_calls;
unsigned (*progress)(uct_iface_h iface);

unsigned count_progress(uct_iface_h iface)
{
    ++progress_calls;
    return progress(iface);
}

TEST(Flight, IsProgressedUntilSomeTimeAfterTheLastCopy)
{
    constexpr unsigned kAll = UCT_PROGRESS_SEND | UCT_PROGRESS_RECV;
    Transport transport;
    uct_iface_h iface = transport.iface();
    Buffer host(Memory::pinned, 64), device(Memory::device, 64);
    progress_calls = 0;
    progress = std::exchange(iface->ops.iface_progress, count_progress);
    uct_iface_progress_disable(iface, kAll);
    uct_iface_progress_enable(iface, kAll);
    const auto calls_in_idle_rounds = [&] {
        const unsigned before = progress_calls;
        for (int i = 0; i < 1000; ++i) {
            uct_worker_progress(transport.worker());
        }
        return progress_calls - before;
    };
    const auto rest = [&] {
        for (int i = 0; i < 5; ++i) {
            calls_in_idle_rounds();
        }
    };
    EXPECT_GT(calls_in_idle_rounds(), 0u);
    rest();
    EXPECT_EQ(calls_in_idle_rounds(), 0u);
    for (int i = 0; i < 3; ++i) {
        const unsigned before = progress_calls;
        Completion put;
        uct_iov_t iov = piece(host.data(), 64);
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &put),
                  UCS_INPROGRESS);
        transport.wait(put);
        EXPECT_GT(progress_calls, before);
        EXPECT_EQ(calls_in_idle_rounds(), 1000u) << "the next copy may come soon";
        rest();
        EXPECT_EQ(calls_in_idle_rounds(), 0u);
    }
    uct_iface_progress_enable(iface, kAll); // while it rests
    EXPECT_LE(calls_in_idle_rounds(), 1u);
    // Who does not want it progressed is not overruled by a copy; asked again, it goes on.
    uct_iface_progress_disable(iface, kAll);
    Completion put;
    uct_iov_t iov = piece(host.data(), 64);
    ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &put), UCS_INPROGRESS);
    EXPECT_EQ(calls_in_idle_rounds(), 0u);
    EXPECT_FALSE(put.done());
    uct_iface_progress_enable(iface, kAll);
    transport.wait(put);
}

TEST(Flight, ClosingWaitsForCopies)
{
    Buffer host(Memory::pinned, 4096), device(Memory::device, 4096),
        elsewhere(Memory::device, 4096);
    host.fill(7);
    Completion never(11);
    {
        Transport transport;
        uct_iov_t iov = piece(host.data(), 4096);
        for (int i = 0; i < 10; ++i) {
            uct_ep_put_zcopy(transport.ep(), &iov, 1, elsewhere.address(), 0, &never);
        }
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &never),
                  UCS_INPROGRESS);
    }
    EXPECT_EQ(memcmp(softcuda_host_alias(device.data(), 4096), host.data(), 4096), 0);
    EXPECT_EQ(never.count, 11);
}

// ---- sleeping

bool wakes_up(int fd, int milliseconds)
{
    pollfd poll_fd{fd, POLLIN, 0};
    return poll(&poll_fd, 1, milliseconds) == 1;
}

TEST(Wakeup, SleeperIsWokenByItsCopy)
{
    Transport transport;
    int fd;
    ASSERT_EQ(uct_iface_event_fd_get(transport.iface(), &fd), UCS_OK);
    constexpr unsigned kEvents = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    ASSERT_EQ(uct_iface_event_arm(transport.iface(), kEvents), UCS_OK);
    EXPECT_FALSE(wakes_up(fd, 5)) << "nothing is in flight";

    Buffer host(Memory::pinned, 4096), device(Memory::device, 4096);
    uct_iov_t iov = piece(host.data(), 4096);
    for (int i = 0; i < 20; ++i) {
        Completion completion;
        ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &completion),
                  UCS_INPROGRESS);
        while (!completion.done()) {
            ucs_status_t armed = uct_iface_event_arm(transport.iface(), kEvents);
            if (armed == UCS_OK) {
                ASSERT_TRUE(wakes_up(fd, 10000));
            } else {
                ASSERT_EQ(armed, UCS_ERR_BUSY);
            }
            uct_iface_progress(transport.iface());
        }
    }
    ASSERT_EQ(uct_iface_event_arm(transport.iface(), kEvents), UCS_OK);
    EXPECT_FALSE(wakes_up(fd, 5)) << "the last wake-up is still there";
}

TEST(Wakeup, NoSleepOverWhatHasEnded)
{
    Transport transport;
    Buffer host(Memory::host, 64), other(Memory::host, 64), device(Memory::device, 64);
    Completion by_cpu, by_cuda;
    uct_iov_t iov = piece(host.data(), 64);
    ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, other.address(), 0, &by_cpu),
              UCS_INPROGRESS);
    EXPECT_EQ(uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP), UCS_ERR_BUSY);
    transport.wait(by_cpu);
    ASSERT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &by_cuda),
              UCS_INPROGRESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP), UCS_ERR_BUSY);
    transport.wait(by_cuda);
}

TEST(Wakeup, NotificationsAreNotRepeated)
{
    Transport transport;
    constexpr size_t kLength = 16 << 20; // mostly not copied before the interface is armed
    Buffer host(Memory::pinned, kLength), device(Memory::device, kLength);
    bool armed_twice = false;
    for (int attempt = 0; !armed_twice && attempt < 100; ++attempt) {
        Completion completion(10);
        uct_iov_t iov = piece(host.data(), kLength);
        for (int i = 0; i < 10; ++i) {
            uct_ep_put_zcopy(transport.ep(), &iov, 1, device.address(), 0, &completion);
        }
        uint64_t before = softcuda_call_count("cuLaunchHostFunc");
        armed_twice = uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP) == UCS_OK &&
                      uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP) == UCS_OK;
        if (armed_twice) {
            EXPECT_EQ(softcuda_call_count("cuLaunchHostFunc"), before + 1);
        }
        transport.wait(completion);
    }
    EXPECT_TRUE(armed_twice);
}

// ---- what is no memory

TEST(BadMemory, FreedDeviceMemoryIsAnError)
{
    Transport transport;
    for (Memory other : kMemories) {
        Buffer live(other, 4096), freed(Memory::device, 4096);
        char* stale = freed.data();
        freed.free();
        auto remote = reinterpret_cast<uint64_t>(stale);
        uct_iov_t iov = piece(live.data(), 4096), stale_iov = piece(stale, 4096);
        Completion never;
        uint64_t before = softcuda_call_count("cuMemcpyAsync");
        EXPECT_TRUE(
            UCS_STATUS_IS_ERR(uct_ep_put_short(transport.ep(), live.data(), 4096, remote, 0)));
        EXPECT_TRUE(
            UCS_STATUS_IS_ERR(uct_ep_get_short(transport.ep(), live.data(), 4096, remote, 0)));
        EXPECT_TRUE(
            UCS_STATUS_IS_ERR(uct_ep_put_short(transport.ep(), stale, 4096, live.address(), 0)));
        EXPECT_TRUE(
            UCS_STATUS_IS_ERR(uct_ep_put_zcopy(transport.ep(), &iov, 1, remote, 0, &never)));
        EXPECT_TRUE(
            UCS_STATUS_IS_ERR(uct_ep_get_zcopy(transport.ep(), &iov, 1, remote, 0, &never)));
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
            uct_ep_put_zcopy(transport.ep(), &stale_iov, 1, live.address(), 0, &never)));
        EXPECT_FALSE(never.done());
        EXPECT_EQ(softcuda_call_count("cuMemcpyAsync"), before)
            << "the real driver crashes on such an address";

        Buffer device(Memory::device, 4096);
        live.fill(1);
        copy(transport, Operation::put_zcopy, device, live, 4096);
        EXPECT_TRUE(device.holds(1)) << "the interface goes on working";
    }
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_OK);
}

TEST(BadMemory, ALateStaleEntryEndsTheEarlierOnes)
{
    Transport transport;
    Buffer host(Memory::pinned, 4096), device(Memory::device, 8192), freed(Memory::device, 4096);
    host.fill(3);
    char* stale = freed.data();
    freed.free();
    uct_iov_t iov[] = {piece(host.data(), 4096), piece(stale, 4096)};
    Completion never;
    ASSERT_TRUE(
        UCS_STATUS_IS_ERR(uct_ep_put_zcopy(transport.ep(), iov, 2, device.address(), 0, &never)));
    host.fill(4); // not read any more
    EXPECT_TRUE(device.holds(3, 0, 4096));
    EXPECT_EQ(uct_iface_flush(transport.iface(), 0, nullptr), UCS_OK);
}

TEST(BadMemory, BeyondTheAllocationIsAnError)
{
    Transport transport;
    Buffer host(Memory::host, 8 << 20), device(Memory::device, 4096);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
        uct_ep_put_short(transport.ep(), host.data(), 8 << 20, device.address(), 0)));
    EXPECT_TRUE(
        UCS_STATUS_IS_ERR(uct_ep_put_short(transport.ep(), nullptr, 8, device.address(), 0)));
}

// ---- the interface and its addresses

TEST(Interface, ReachesItselfAlone)
{
    Transport one, two;
    auto reachable = [](Transport& from, const std::vector<char>& address) {
        return uct_iface_is_reachable(from.iface(), nullptr,
                                      reinterpret_cast<const uct_iface_addr_t*>(address.data()));
    };
    EXPECT_TRUE(reachable(one, one.address()));
    EXPECT_FALSE(reachable(one, two.address()));
    std::vector<char> shorter_of_others{'\xc5', 1, 0, 0};
    EXPECT_FALSE(reachable(one, shorter_of_others));
    EXPECT_FALSE(uct_iface_is_reachable(one.iface(), nullptr, nullptr));

    std::vector<char> foreign = two.address();
    uct_ep_params_t params = {};
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = one.iface();
    params.iface_addr = reinterpret_cast<uct_iface_addr_t*>(foreign.data());
    uct_ep_h ep;
    EXPECT_EQ(uct_ep_create(&params, &ep), UCS_ERR_UNREACHABLE);
}

TEST(Interface, Attributes)
{
    Transport transport;
    const uct_iface_attr_t& attr = transport.attributes();
    EXPECT_EQ(attr.cap.flags & (UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PUT_SHORT |
                                UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_PUT_ZCOPY |
                                UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING),
              attr.cap.flags);
    EXPECT_TRUE(attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD);
    EXPECT_EQ(attr.cap.put.max_short, UINT32_MAX);
    EXPECT_EQ(attr.cap.get.max_zcopy, SIZE_MAX);
    EXPECT_EQ(attr.device_addr_len, 0);
    EXPECT_GT(attr.bandwidth.shared, 1e9);
}

TEST(Interface, NoOtherDevice)
{
    Transport transport;
    uct_tl_resource_desc_t* resources;
    unsigned count;
    ASSERT_EQ(uct_md_query_tl_resources(transport.md(), &resources, &count), UCS_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_STREQ(resources[0].tl_name, "gdr");
    EXPECT_STREQ(resources[0].dev_name, "cuda");
    EXPECT_EQ(resources[0].dev_type, UCT_DEVICE_TYPE_ACC);
    uct_release_tl_resource_list(resources);
}

TEST(Interface, CountsWhatItStaged)
{
    Buffer host(Memory::host, 1000), device(Memory::device, 1000), other(Memory::device, 1000);
    gdr::stats::Counts before = gdr::stats::statistics().totals();
    {
        Transport transport;
        copy(transport, Operation::put_short, device, host, 1000);
        copy(transport, Operation::get_zcopy, host, device, 500);
        copy(transport, Operation::put_zcopy, other, device, 1000);
    }
    gdr::stats::Counts after = gdr::stats::statistics().totals();
    EXPECT_EQ(after.staged_bytes - before.staged_bytes, 1500u);
    EXPECT_EQ(after.staged_ops - before.staged_ops, 2u);
}

TEST(Interface, EstimatesAreThoseOfACopy)
{
    using gdr::abi::EpOperation;
    auto cost = [](EpOperation operation, ucs_memory_type_t local, ucs_memory_type_t remote) {
        return gdr::copy::estimate(
            {operation, local, remote, UCS_SYS_DEVICE_ID_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN},
            false);
    };
    auto fixed = [](const gdr::abi::PerfEstimate& estimate) {
        EXPECT_EQ(estimate.recv_overhead, 0);
        return estimate.send_pre_overhead + estimate.send_post_overhead + estimate.latency;
    };
    for (auto [local, remote] : {std::pair{UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA},
                                 std::pair{UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_HOST},
                                 std::pair{UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA}}) {
        for (EpOperation operation : {EpOperation::put_short, EpOperation::get_short}) {
            gdr::abi::PerfEstimate estimate = cost(operation, local, remote);
            EXPECT_GE(fixed(estimate), 5e-6) << "UCP would prefer bounce copies to the HCA";
            EXPECT_LE(fixed(estimate), 10e-6);
        }
        for (EpOperation operation : {EpOperation::put_zcopy, EpOperation::get_zcopy}) {
            if (local == remote) {
                continue;
            }
            gdr::abi::PerfEstimate estimate = cost(operation, local, remote);
            EXPECT_NEAR(fixed(estimate) + 4096 / estimate.bandwidth_shared, 6.6e-6, 0.5e-6)
                << "of a small copy";
            EXPECT_LT(estimate.bandwidth_shared, 36e9)
                << "UCP would stage large messages rather than send them";
        }
    }
    gdr::abi::PerfEstimate put =
        cost(EpOperation::put_zcopy, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA);
    gdr::abi::PerfEstimate get =
        cost(EpOperation::get_zcopy, UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_HOST);
    EXPECT_EQ(put.latency, get.latency) << "both move data from host to device";
}

// ---- the memory domain

uct_md_attr_t attributes_of(uct_md_h md)
{
    uct_md_attr_t attr;
    require(uct_md_query(md, &attr), "uct_md_query");
    return attr;
}

TEST(Domain, Attributes)
{
    Transport transport;
    uct_md_attr_t attr = attributes_of(transport.md());
    constexpr uint64_t kHost = 1 << UCS_MEMORY_TYPE_HOST;
    constexpr uint64_t kCuda = 1 << UCS_MEMORY_TYPE_CUDA | 1 << UCS_MEMORY_TYPE_CUDA_MANAGED;
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_REG);
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_ALLOC);
    EXPECT_EQ(attr.cap.reg_mem_types, kHost | kCuda);
    EXPECT_EQ(attr.cap.access_mem_types, kHost | kCuda);
    EXPECT_EQ(attr.cap.detect_mem_types, kCuda);
    EXPECT_EQ(attr.cap.alloc_mem_types, kCuda);
}

TEST(Domain, TellsWhatAnAddressIs)
{
    Transport transport;
    for (auto [memory, type] : {std::pair{Memory::device, UCS_MEMORY_TYPE_CUDA},
                                std::pair{Memory::managed, UCS_MEMORY_TYPE_CUDA_MANAGED}}) {
        Buffer buffer(memory, 10000, primary_context(1));
        uct_md_mem_attr_t attr = {};
        attr.field_mask = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE | UCT_MD_MEM_ATTR_FIELD_SYS_DEV |
                          UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS | UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH;
        ASSERT_EQ(uct_md_mem_query(transport.md(), buffer.data() + 5000, 10, &attr), UCS_OK);
        uint64_t before = softcuda_calls();
        ASSERT_EQ(uct_md_mem_query(transport.md(), buffer.data() + 5000, 10, &attr), UCS_OK);
        EXPECT_EQ(softcuda_calls() - before, 1u) << "one call of the driver";
        EXPECT_EQ(attr.mem_type, type);
        EXPECT_LE(attr.base_address, buffer.data());
        EXPECT_GE(static_cast<char*>(attr.base_address) + attr.alloc_length, buffer.data() + 10000);
    }
    for (Memory memory : {Memory::host, Memory::pinned}) {
        Buffer buffer(memory, 100);
        ucs_memory_type_t type;
        EXPECT_NE(uct_md_detect_memory_type(transport.md(), buffer.data(), 100, &type), UCS_OK);
    }
    Buffer freed(Memory::device, 100);
    char* stale = freed.data();
    freed.free();
    ucs_memory_type_t type;
    EXPECT_NE(uct_md_detect_memory_type(transport.md(), stale, 100, &type), UCS_OK);
}

bool pinned(const void* address)
{
    unsigned type = 0;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

TEST(Domain, AsksOnceAboutHostMemory)
{
    Transport transport;
    auto is_cudas = [&](const void* address, size_t length) {
        ucs_memory_type_t type;
        return uct_md_detect_memory_type(transport.md(), address, length, &type) == UCS_OK;
    };
    auto calls = [&](const void* address, size_t length) {
        uint64_t before = softcuda_calls();
        EXPECT_FALSE(is_cudas(address, length));
        return softcuda_calls() - before;
    };
    constexpr size_t kLength = 1 << 16;
    void* memory =
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(calls(memory, 8), 1u);
    EXPECT_EQ(calls(memory, 8), 0u);

    // Pinned for copies it is what it was.
    Buffer device(Memory::device, 100); // there is a context
    uct_mem_h memh = nullptr;
    ASSERT_EQ(uct_md_mem_reg(transport.md(), memory, kLength, UCT_MD_MEM_ACCESS_ALL, &memh),
              UCS_OK);
    char* registered = static_cast<char*>(memory) + kLength / 4;
    EXPECT_TRUE(pinned(registered));
    EXPECT_EQ(calls(registered, 8), 1u);
    EXPECT_EQ(calls(registered, 8), 0u);
    ASSERT_EQ(uct_md_mem_dereg(transport.md(), memh), UCS_OK);

    // What CUDA may do with addresses without unmapping anything.
    Buffer allocated(Memory::pinned, 100);
    EXPECT_EQ(calls(allocated.data(), 8), 1u);
    EXPECT_EQ(calls(allocated.data(), 8), 1u);
    Buffer freed(Memory::device, 100);
    char* stale = freed.data();
    freed.free();
    EXPECT_GE(calls(stale, 8), 1u);
    EXPECT_GE(calls(stale, 8), 1u);
    char* nothing = static_cast<char*>(memory) + kLength / 2;
    EXPECT_EQ(calls(nothing, 0), 1u);
    EXPECT_EQ(calls(nothing, 0), 1u) << "no bytes are nobody's";

    munmap(memory, kLength);
    EXPECT_EQ(calls(memory, 8), 1u);
    EXPECT_EQ(calls(memory, 8), 1u) << "nothing is there";
}

// What UCP's caches of registrations are told that is freed.
class Ended {
  public:
    Ended() { require(ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE, 500, note, this), "events"); }
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    ~Ended() { ucm_unset_event_handler(UCM_EVENT_MEM_TYPE_FREE, note, this); }

    // Since the last call; -1: this range was not in what was told.
    int times(const void* address, size_t length)
    {
        const auto start = static_cast<const char*>(address);
        int count = 0;
        for (const auto& [first, size] : std::exchange(told_, {})) {
            if (start < first || start + length > first + size) {
                return -1;
            }
            ++count;
        }
        return count;
    }

  private:
    static void note(ucm_event_type_t, ucm_event_t* event, void* self)
    {
        static_cast<Ended*>(self)->told_.emplace_back(
            static_cast<const char*>(event->mem_type.address), event->mem_type.size);
    }

    std::vector<std::pair<const char*, size_t>> told_;
};

TEST(Domain, EndsUcpsRegistrationsOfWhatWasThereBefore)
{
    Transport transport;
    Ended ended;
    auto asked = [&](const void* address, size_t length) {
        ucs_memory_type_t type;
        (void)uct_md_detect_memory_type(transport.md(), address, length, &type);
        return ended.times(address, length);
    };
    constexpr size_t kLength = 3 << 20;
    auto buffer = std::make_unique<Buffer>(Memory::device, kLength);
    char* const place = buffer->data();
    EXPECT_EQ(asked(place, kLength), 1) << "never seen";
    EXPECT_EQ(asked(place, kLength), 0);
    EXPECT_EQ(asked(place + (1 << 20), 100), 0) << "another part of the same";
    buffer->free();
    buffer = std::make_unique<Buffer>(Memory::device, kLength);
    ASSERT_EQ(buffer->data(), place);
    EXPECT_EQ(asked(place, kLength), 1) << "another allocation";
    EXPECT_EQ(asked(place, kLength), 0);
    buffer->free();
    const Buffer managed(Memory::managed, kLength), pooled(Memory::pool, kLength);
    for (const Buffer* other : {&managed, &pooled}) {
        EXPECT_EQ(asked(other->data(), kLength), 1);
        EXPECT_EQ(asked(other->data(), kLength), 0);
        EXPECT_EQ(asked(other->data() + (1 << 20), 100), 0);
    }

    // More allocations than a thread remembers addresses of, in turns.
    std::vector<std::unique_ptr<Buffer>> many;
    for (unsigned i = 0; i < 100; ++i) {
        many.push_back(std::make_unique<Buffer>(Memory::device, 100));
    }
    int told = 0;
    for (unsigned turn = 0; turn < 11; ++turn) {
        for (const auto& each : many) {
            told += turn > 0 ? asked(each->data(), 100) : asked(each->data(), 100) - 1;
        }
    }
    EXPECT_LT(told, 500) << "of 1000";

    char* const host = static_cast<char*>(
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(asked(host, kLength), 1) << "CUDA's memory may have been there";
    EXPECT_EQ(asked(host, kLength), 0);
    munmap(host, kLength);
}

// Two mappings of cuMemCreate's side by side.
class Mappings {
  public:
    static constexpr size_t kLength = size_t{2} << 20; // of each

    Mappings()
    {
        require(cuMemAddressReserve(&start_, 2 * kLength, 0, 0, 0), "cuMemAddressReserve");
        map(0);
        map(1);
    }
    Mappings(const Mappings&) = delete;
    Mappings& operator=(const Mappings&) = delete;
    ~Mappings()
    {
        cuMemUnmap(start_, 2 * kLength);
        cuMemAddressFree(start_, 2 * kLength);
    }

    char* operator[](size_t number) const
    {
        return reinterpret_cast<char*>(start_ + number * kLength);
    }

    void replace(size_t number)
    {
        require(cuMemUnmap(start_ + number * kLength, kLength), "cuMemUnmap");
        map(number);
    }

  private:
    void map(size_t number)
    {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        const CUdeviceptr address = start_ + number * kLength;
        CUmemGenericAllocationHandle handle = 0;
        require(cuMemCreate(&handle, kLength, &properties, 0), "cuMemCreate");
        require(cuMemMap(address, kLength, 0, handle, 0), "cuMemMap");
        require(cuMemSetAccess(address, kLength, &access, 1), "cuMemSetAccess");
        require(cuMemRelease(handle), "cuMemRelease"); // the mapping keeps it
    }

    CUdeviceptr start_ = 0;
};

TEST(Domain, EndsUcpsRegistrationsOfMappings)
{
    Transport transport;
    const Current current(primary_context(0));
    Ended ended;
    auto asked = [&](const void* address, size_t length) {
        ucs_memory_type_t type;
        (void)uct_md_detect_memory_type(transport.md(), address, length, &type);
        return ended.times(address, length);
    };
    Mappings mappings;
    constexpr size_t kLength = Mappings::kLength;
    for (size_t i : {0, 1}) {
        EXPECT_EQ(asked(mappings[i], kLength), 1) << "never seen";
        EXPECT_EQ(asked(mappings[i], kLength), 0);
        EXPECT_EQ(asked(mappings[i] + 5000, 100), 0) << "another part of the same";
    }
    mappings.replace(1);
    EXPECT_EQ(asked(mappings[0], kLength), 0);
    EXPECT_EQ(asked(mappings[1], kLength), 1) << "another mapping";
    EXPECT_EQ(asked(mappings[1], kLength), 0);
    EXPECT_EQ(asked(mappings[0], 2 * kLength), 1);
    EXPECT_EQ(asked(mappings[0], 2 * kLength), 1) << "the second may be another";
    for (size_t i : {0, 1}) {
        EXPECT_EQ(asked(mappings[i], kLength), 1) << "is registered with the other";
        EXPECT_EQ(asked(mappings[i], kLength), 0);
    }
}

TEST(Domain, EndsUcpsRegistrationsOfWhatWasWhereItAllocates)
{
    Transport transport;
    Ended ended;
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_md_h md = transport.md();
    uct_mem_alloc_params_t params = {};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_MDS;
    params.mem_type = UCS_MEMORY_TYPE_CUDA_MANAGED;
    params.mds.mds = &md;
    params.mds.count = 1;
    uct_allocated_memory_t memory;
    ASSERT_EQ(uct_mem_alloc(10000, &method, 1, &params, &memory), UCS_OK);
    EXPECT_EQ(ended.times(memory.address, 10000), 1);
    EXPECT_EQ(uct_mem_free(&memory), UCS_OK);
}

bool synchronous(const Buffer& buffer)
{
    int value = 0;
    require(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer.address()),
            "cuPointerGetAttribute");
    return value != 0;
}

TEST(Domain, MakesTheApplicationsCopiesSynchronous)
{
    Transport transport;
    Buffer detected(Memory::device, 100), copied(Memory::device, 100), host(Memory::host, 100);
    ASSERT_FALSE(synchronous(detected) || synchronous(copied));
    ucs_memory_type_t type;
    ASSERT_EQ(uct_md_detect_memory_type(transport.md(), detected.data(), 100, &type), UCS_OK);
    EXPECT_TRUE(synchronous(detected));
    copy(transport, Operation::get_short, host, copied, 100);
    EXPECT_TRUE(synchronous(copied));
}

TEST(Domain, PinsHostMemoryWhereItHelps)
{
    Transport transport;
    Buffer large(Memory::host, 1 << 20), small(Memory::host, 4096), device(Memory::device, 1 << 20);
    struct {
        void* address;
        size_t length;
        bool pinned;
    } cases[] = {{large.data(), 1 << 20, true},
                 {small.data(), 4096, false},
                 {device.data(), 1 << 20, false}};
    for (auto& c : cases) {
        uct_mem_h memh = nullptr;
        ASSERT_EQ(uct_md_mem_reg(transport.md(), c.address, c.length, UCT_MD_MEM_ACCESS_ALL, &memh),
                  UCS_OK);
        EXPECT_NE(memh, nullptr);
        EXPECT_EQ(pinned(c.address), c.pinned);
        ASSERT_EQ(uct_md_mem_dereg(transport.md(), memh), UCS_OK);
        EXPECT_FALSE(pinned(c.address));
    }
}

// Nobody else could reach the memory, and the domain does not offer it.
TEST(Domain, InvalidationIsUnsupported)
{
    using L = gdr::abi::Layout_1_13;
    Transport transport;
    Buffer device(Memory::device, 4096);
    uct_mem_h memh;
    ASSERT_EQ(uct_md_mem_reg(transport.md(), device.data(), 4096, UCT_MD_MEM_ACCESS_ALL, &memh),
              UCS_OK);
    Completion done;
    L::DeregParams params{L::kDeregMemh | L::kDeregFlags | L::kDeregCompletion,
                          L::kDeregFlagInvalidate, memh, &done};
    EXPECT_EQ(uct_md_mem_dereg_v2(transport.md(), &params), UCS_ERR_UNSUPPORTED);
    EXPECT_FALSE(done.done());
    EXPECT_EQ(uct_md_mem_dereg(transport.md(), memh), UCS_OK);
}

TEST(Domain, MemoryPinnedByOthersStaysSo)
{
    Transport transport;
    Buffer large(Memory::host, 1 << 20);
    Current current(primary_context(0));
    require(cuMemHostRegister(large.data(), 1 << 20, 0), "cuMemHostRegister");
    uct_mem_h first, second;
    ASSERT_EQ(uct_md_mem_reg(transport.md(), large.data(), 1 << 20, UCT_MD_MEM_ACCESS_ALL, &first),
              UCS_OK);
    ASSERT_EQ(uct_md_mem_reg(transport.md(), large.data(), 1 << 19, UCT_MD_MEM_ACCESS_ALL, &second),
              UCS_OK);
    EXPECT_EQ(uct_md_mem_dereg(transport.md(), first), UCS_OK);
    EXPECT_EQ(uct_md_mem_dereg(transport.md(), second), UCS_OK);
    EXPECT_TRUE(pinned(large.data()));
    require(cuMemHostUnregister(large.data()), "cuMemHostUnregister");
}

CUcontext context_of(const void* address)
{
    CUcontext context = nullptr;
    require(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  reinterpret_cast<CUdeviceptr>(address)),
            "cuPointerGetAttribute");
    return context;
}

TEST(Domain, Allocates)
{
    CUcontext primary = primary_context(0);
    CUcontext own;
    require(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_AUTO, 1), "cuCtxCreate");
    require(cuCtxPopCurrent(&own), "cuCtxPopCurrent");
    Transport transport;
    uct_md_h md = transport.md();
    for (ucs_memory_type_t type : {UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED}) {
        for (CUcontext current : {static_cast<CUcontext>(nullptr), own}) {
            uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
            uct_mem_alloc_params_t params = {};
            params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS |
                                UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_MDS;
            params.flags = UCT_MD_MEM_ACCESS_ALL;
            params.mem_type = type;
            params.mds = {&md, 1};
            uct_allocated_memory_t memory;
            {
                Current situation(current);
                ASSERT_EQ(uct_mem_alloc(100000, &method, 1, &params, &memory), UCS_OK);
            }
            EXPECT_EQ(memory.mem_type, type);
            EXPECT_EQ(context_of(memory.address), current != nullptr ? current : primary);
            ucs_memory_type_t detected;
            ASSERT_EQ(uct_md_detect_memory_type(md, memory.address, memory.length, &detected),
                      UCS_OK);
            EXPECT_EQ(detected, type);
            Current other(current != nullptr ? nullptr : own); // unlike at allocation
            EXPECT_EQ(uct_mem_free(&memory), UCS_OK);
            EXPECT_NE(uct_md_detect_memory_type(md, memory.address, memory.length, &detected),
                      UCS_OK);
        }
    }
    require(cuCtxDestroy(own), "cuCtxDestroy");
}

ucs_status_t allocate(Transport& transport, size_t length, uct_allocated_memory_t& memory)
{
    uct_md_h md = transport.md();
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params = {};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_MDS;
    params.mem_type = UCS_MEMORY_TYPE_CUDA;
    params.mds = {&md, 1};
    return uct_mem_alloc(length, &method, 1, &params, &memory);
}

TEST(Domain, RefusesMoreThanThereIs)
{
    Transport transport;
    uct_allocated_memory_t memory;
    EXPECT_EQ(allocate(transport, size_t{1} << 44, memory), UCS_ERR_NO_MEMORY);
}

// UCP frees a byte while streams may wait for what it does next.
TEST(Domain, KeepsOneSmallBlock)
{
    Transport transport;
    const auto frees = [] { return softcuda_call_count("cuMemFree"); };
    uct_allocated_memory_t first, again, second, large;
    {
        Current situation(primary_context(0));
        const uint64_t before = frees();
        ASSERT_EQ(allocate(transport, 1, first), UCS_OK);
        EXPECT_EQ(uct_mem_free(&first), UCS_OK);
        EXPECT_EQ(frees(), before);
        ASSERT_EQ(allocate(transport, 100, again), UCS_OK);
        EXPECT_EQ(again.address, first.address);
        ASSERT_EQ(allocate(transport, 1, second), UCS_OK);
        EXPECT_NE(second.address, first.address);
        EXPECT_EQ(uct_mem_free(&again), UCS_OK);
        EXPECT_EQ(frees(), before);
        EXPECT_EQ(uct_mem_free(&second), UCS_OK);
        EXPECT_EQ(frees(), before + 1);
        ASSERT_EQ(allocate(transport, 1000, large), UCS_OK);
        EXPECT_EQ(uct_mem_free(&large), UCS_OK);
        EXPECT_EQ(frees(), before + 2);
    }
    // It is of a context, and goes with that.
    CUcontext own;
    require(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_AUTO, 1), "cuCtxCreate");
    ASSERT_EQ(allocate(transport, 1, second), UCS_OK);
    EXPECT_EQ(context_of(second.address), own);
    {
        Current situation(primary_context(0));
        ASSERT_EQ(allocate(transport, 1, again), UCS_OK);
        EXPECT_EQ(again.address, first.address);
    }
    EXPECT_EQ(uct_mem_free(&second), UCS_OK);
    require(cuCtxDestroy(own), "cuCtxDestroy");
    require(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_AUTO, 1), "cuCtxCreate");
    ASSERT_EQ(allocate(transport, 1, second), UCS_OK);
    EXPECT_EQ(context_of(second.address), own);
    require(cuMemsetD8(reinterpret_cast<CUdeviceptr>(second.address), 1, 1), "cuMemsetD8");
    EXPECT_EQ(uct_mem_free(&second), UCS_OK);
    EXPECT_EQ(uct_mem_free(&again), UCS_OK);
    require(cuCtxDestroy(own), "cuCtxDestroy");
}

} // namespace copy_test
