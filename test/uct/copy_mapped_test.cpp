// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short operations of the copy interface through gdrcopy's library, here the emulated one, which
// the program is linked with, so that the interface finds it.
#include "copy_support.hpp"

#include "abi/layout_1_13.hpp"
#include "copy/mapped_memory.hpp"
#include "emu/softcuda/softcuda.h"
#include "emu/softgdrcopy/softgdrcopy.h"
#include "mem/cpu_registrar.hpp"
#include "stats/statistics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

// Not in an installed header of 1.13.
extern "C" ucs_status_t uct_iface_estimate_perf(uct_iface_h iface, void* attr);

namespace copy_test {

namespace {

constexpr size_t kMostGot = 256; // the default of UCX_GDR_COPY_GDRCOPY_MAX_GET

void put(Transport& transport, uint64_t device, const void* host, size_t length)
{
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host, length, device, 0), UCS_OK);
}

void get(Transport& transport, void* host, uint64_t device, size_t length)
{
    ASSERT_EQ(uct_ep_get_short(transport.ep(), host, length, device, 0), UCS_OK);
}

TEST(Mapped, EverySizeAndAlignment)
{
    constexpr size_t kMost = gdr::copy::MappedMemory::kMostPut;
    Transport transport;
    for (const size_t length :
         {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{8}, size_t{15}, size_t{16}, size_t{17},
          size_t{63}, size_t{65}, size_t{255}, kMostGot, kMostGot + 1, size_t{4095}, size_t{8200},
          kMost, kMost + 1}) {
        for (const size_t offset : {0, 1, 3, 8, 61}) {
            const size_t all = offset + length + 5;
            Buffer host(Memory::host, all), device(Memory::device, all), back(Memory::host, all);
            host.fill(1);
            device.fill(2);
            back.fill(3);
            const uint64_t writes = softgdrcopy_writes(), reads = softgdrcopy_reads();
            put(transport, device.address() + offset, host.data() + offset, length);
            EXPECT_EQ(softgdrcopy_writes() - writes, length <= kMost ? 1u : 0u) << length;
            EXPECT_TRUE(device.holds(1, offset, length, offset));
            EXPECT_TRUE(device.holds(2, 0, offset)) << "before it";
            EXPECT_TRUE(device.holds(2, offset + length, 5, offset + length)) << "behind it";
            get(transport, back.data() + offset, device.address() + offset, length);
            EXPECT_EQ(softgdrcopy_reads() - reads, length <= kMostGot ? 1u : 0u) << length;
            EXPECT_TRUE(back.holds(1, offset, length, offset));
            EXPECT_TRUE(back.holds(3, 0, offset));
            EXPECT_TRUE(back.holds(3, offset + length, 5, offset + length));
        }
    }
}

TEST(Mapped, AcrossWindows)
{
    constexpr size_t kWindow = gdr::mem::CpuRegistrar::kWindow;
    Transport transport;
    Buffer host(Memory::host, 100), device(Memory::device, 3 * kWindow);
    host.fill(1);
    const uint64_t boundary = (device.address() + kWindow) & ~(kWindow - 1);
    for (const uint64_t at : {boundary - 100, boundary - 50, boundary, boundary - 1}) {
        device.clear();
        const uint64_t writes = softgdrcopy_writes();
        put(transport, at, host.data(), 100);
        EXPECT_EQ(softgdrcopy_writes() - writes, 1u);
        EXPECT_TRUE(device.holds(1, at - device.address(), 100));
    }
}

// Freed memory that is mapped stays where it was: what is written there is lost.
TEST(Mapped, FreedAndAllocatedAgainIsOtherMemory)
{
    Transport transport;
    Buffer host(Memory::host, 5000);
    std::vector<char> back(5000);
    uint64_t before = 0;
    unsigned same = 0;
    for (unsigned round = 0; round < 20; ++round) {
        Buffer device(Memory::device, 5000);
        same += device.address() == before;
        before = device.address();
        host.fill(round);
        device.clear();
        put(transport, device.address() + 8, host.data() + 8, 100);
        EXPECT_TRUE(device.holds(round, 8, 100, 8)) << "round " << round;
        device.fill(round + 100);
        get(transport, back.data(), device.address(), 64);
        EXPECT_TRUE(device.holds(round + 100, 0, 64));
        Buffer copy(Memory::host, 64);
        memcpy(copy.data(), back.data(), 64);
        EXPECT_TRUE(copy.holds(round + 100)) << "round " << round;
    }
    EXPECT_GT(same, 10u) << "the emulation gives addresses again";
    EXPECT_LE(softgdrcopy_pins() - softgdrcopy_unpins(), 128u);
}

TEST(Mapped, FoundAgainByOneQuery)
{
    Transport transport;
    Buffer host(Memory::host, 10000), device(Memory::device, 10000);
    put(transport, device.address(), host.data(), 8192);
    const uint64_t attempts = softgdrcopy_attempts();
    const uint64_t calls = softcuda_calls();
    const uint64_t queries = softcuda_call_count("cuPointerGetAttributes");
    constexpr unsigned kRounds = 1000;
    for (unsigned round = 0; round < kRounds; ++round) {
        put(transport, device.address() + round, host.data(), 8 + 8 * round);
        get(transport, host.data(), device.address() + round, 8 + round % 248);
    }
    EXPECT_EQ(softgdrcopy_attempts(), attempts);
    EXPECT_EQ(softcuda_call_count("cuPointerGetAttributes") - queries, 2 * kRounds);
    EXPECT_EQ(softcuda_calls() - calls, 2 * kRounds) << "of whatever function";
}

// What is not mapped takes CUDA's way, and is not tried again.
TEST(Mapped, MoreWindowsThanMayBe)
{
    constexpr unsigned kMost = gdr::mem::CpuRegistrar::kMostWindows;
    constexpr size_t kWindow = gdr::mem::CpuRegistrar::kWindow;
    Transport transport;
    Buffer host(Memory::host, 64);
    host.fill(1);
    std::vector<std::unique_ptr<Buffer>> buffers;
    const auto put_in_all = [&] {
        for (auto& buffer : buffers) {
            buffer->clear();
            put(transport, buffer->address(), host.data(), 64);
            EXPECT_TRUE(buffer->holds(1, 0, 64));
        }
    };
    for (unsigned i = 0; i < kMost + 10; ++i) {
        buffers.push_back(std::make_unique<Buffer>(Memory::device, kWindow / 16));
    }
    put_in_all();
    EXPECT_EQ(softgdrcopy_pins() - softgdrcopy_unpins(), kMost);
    const uint64_t attempts = softgdrcopy_attempts();
    put_in_all();
    EXPECT_EQ(softgdrcopy_attempts(), attempts);

    buffers.resize(kMost / 2); // freed, and seen when the next is mapped
    Buffer another(Memory::device, 64);
    const uint64_t writes = softgdrcopy_writes();
    put(transport, another.address(), host.data(), 64);
    EXPECT_EQ(softgdrcopy_writes() - writes, 1u);
}

// Nobody puts anything any more: the memory is given back all the same.
TEST(Mapped, FreedMemoryIsGivenBack)
{
    Transport transport;
    Buffer host(Memory::host, 64);
    const uint64_t pinned = softgdrcopy_pins() - softgdrcopy_unpins();
    {
        Buffer device(Memory::device, 64);
        put(transport, device.address(), host.data(), 64);
        EXPECT_GT(softgdrcopy_pins() - softgdrcopy_unpins(), pinned);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (softgdrcopy_pins() - softgdrcopy_unpins() > pinned &&
           std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(softgdrcopy_pins() - softgdrcopy_unpins(), pinned);
}

TEST(Mapped, EndsWithTheLastInterface)
{
    Buffer host(Memory::host, 64), device(Memory::device, 64);
    {
        Transport one;
        {
            Transport two;
            put(two, device.address(), host.data(), 64);
        }
        EXPECT_GT(softgdrcopy_pins(), softgdrcopy_unpins());
    }
    EXPECT_EQ(softgdrcopy_pins(), softgdrcopy_unpins());
}

TEST(Mapped, IsCounted)
{
    const gdr::stats::Counts before = gdr::stats::statistics().totals();
    Buffer host(Memory::host, 1000), device(Memory::device, 1000);
    {
        Transport transport;
        put(transport, device.address(), host.data(), 1000);
        get(transport, host.data(), device.address(), 100);
    }
    const gdr::stats::Counts after = gdr::stats::statistics().totals();
    EXPECT_EQ(after.staged_bytes - before.staged_bytes, 1100u);
    EXPECT_EQ(after.staged_ops - before.staged_ops, 2u);
}

// The options are the interface's.
TEST(Mapped, AreSwitchedOff)
{
    setenv("UCX_GDR_COPY_GDRCOPY", "n", 1);
    Buffer host(Memory::host, 64), device(Memory::device, 64);
    host.fill(1);
    const uint64_t writes = softgdrcopy_writes();
    {
        Transport transport;
        unsetenv("UCX_GDR_COPY_GDRCOPY");
        put(transport, device.address(), host.data(), 64);
    }
    EXPECT_TRUE(device.holds(1));
    EXPECT_EQ(softgdrcopy_writes(), writes);

    setenv("UCX_GDR_COPY_GDRCOPY_MAX_GET", "32", 1);
    Transport transport;
    unsetenv("UCX_GDR_COPY_GDRCOPY_MAX_GET");
    const uint64_t reads = softgdrcopy_reads();
    get(transport, host.data(), device.address(), 33);
    EXPECT_EQ(softgdrcopy_reads(), reads);
    get(transport, host.data(), device.address(), 32);
    EXPECT_EQ(softgdrcopy_reads(), reads + 1);
}

// What UCP's protocols v2 are told.
double told_overhead(const Transport& transport, gdr::abi::Layout_1_13::EpOp operation)
{
    using L = gdr::abi::Layout_1_13;
    L::PerfAttr attr = {};
    attr.field_mask = L::kPerfAttrOperation | L::kPerfAttrLocalMemoryType |
                      L::kPerfAttrRemoteMemoryType | L::kPerfAttrSendPreOverhead;
    attr.operation = operation;
    attr.local_memory_type = UCS_MEMORY_TYPE_HOST;
    attr.remote_memory_type = UCS_MEMORY_TYPE_CUDA;
    require(uct_iface_estimate_perf(transport.iface(), &attr), "uct_iface_estimate_perf");
    return attr.send_pre_overhead;
}

TEST(Mapped, CostsWhatUcpIsTold)
{
    using L = gdr::abi::Layout_1_13;
    setenv("UCX_GDR_COPY_GDRCOPY", "n", 1);
    const Transport without;
    unsetenv("UCX_GDR_COPY_GDRCOPY");
    const Transport with;
    EXPECT_LT(told_overhead(with, L::kEpOpPutShort), 1e-6);
    EXPECT_GT(told_overhead(without, L::kEpOpPutShort), 5e-6);
    for (const L::EpOp same : {L::kEpOpGetShort, L::kEpOpPutZcopy, L::kEpOpGetZcopy}) {
        EXPECT_EQ(told_overhead(with, same), told_overhead(without, same));
    }
}

bool by_kernel_module()
{
    const char* backend = getenv("SOFTGDRCOPY_BACKEND");
    return backend != nullptr && strcmp(backend, "gdrdrv") == 0;
}

// Several allocations may be in one page of the GPU, all of which the kernel module maps.
TEST(Mapped, Neighbours)
{
    constexpr size_t kLength = 100;
    constexpr unsigned kBuffers = 40;
    Transport transport;
    Buffer host(Memory::host, kLength);
    std::vector<std::unique_ptr<Buffer>> devices;
    for (unsigned i = 0; i < kBuffers; ++i) {
        devices.push_back(std::make_unique<Buffer>(Memory::device, kLength));
    }
    const uint64_t writes = softgdrcopy_writes();
    for (unsigned i = 0; i < kBuffers; ++i) {
        host.fill(i);
        put(transport, devices[i]->address(), host.data(), kLength);
    }
    EXPECT_EQ(softgdrcopy_writes() - writes, kBuffers);
    for (unsigned i = 0; i < kBuffers; ++i) {
        EXPECT_TRUE(devices[i]->holds(i)) << i;
    }
}

// Which the kernel module does not map; the driver does what it can export.
TEST(Mapped, MemoryOfAPool)
{
    Transport transport;
    constexpr size_t kLength = (64 << 10) - 128; // whole pages with the guards
    Buffer host(Memory::host, kLength), device(Memory::pool, kLength);
    host.fill(1);
    const uint64_t writes = softgdrcopy_writes();
    put(transport, device.address(), host.data(), kLength);
    if (by_kernel_module()) {
        EXPECT_EQ(softgdrcopy_writes(), writes);
    }
    EXPECT_TRUE(device.holds(1));
}

TEST(Mapped, TheSameByTheKernelModule)
{
    if (by_kernel_module()) {
        GTEST_SKIP() << "the others are";
    }
    char self[4096] = "";
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    const std::string command = std::string("SOFTGDRCOPY_BACKEND=gdrdrv ") + self;
    EXPECT_EQ(system((command + " --gtest_brief=1").c_str()), 0);
}

} // namespace

} // namespace copy_test
