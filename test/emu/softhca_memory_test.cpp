// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registration: of host memory that is or is not there, within the memlock limit, of dmabufs and of
// the emulated GPU's memory, in every combination of what the HCA offers.
#include "softhca_cuda_fixture.hpp"
#include "softhca_fixture.hpp"

#include <algorithm>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

class Memory : public ::testing::Test {
  protected:
    ibv_mr* reg(void* address, std::size_t length, int access = kAllAccess)
    {
        errno = 0;
        return ibv_reg_mr(device.pd, address, length, access);
    }
    // A peer's WRITE by that key arrives there.
    void expect_written(const ibv_mr* mr, std::uint64_t address, const unsigned char* there)
    {
        Endpoint a(device), b(device);
        connect(a, b);
        fill(a.buffer.data(), 100, 1);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 100, address, mr->rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(there, 100, 1));
    }
    Device device;
};

TEST_F(Memory, WhatCannotBeTouchedCannotBeRegistered)
{
    auto* pages = static_cast<unsigned char*>(
        mmap(nullptr, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    ASSERT_EQ(mprotect(pages + 2 * 4096, 4096, PROT_READ), 0);
    ASSERT_EQ(munmap(pages + 3 * 4096, 4096), 0);
    ibv_mr* mr = reg(pages, 4096);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(reg(pages, 4097), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(reg(pages + 3 * 4096, 1), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(reg(pages + 2 * 4096, 10), nullptr); // may not be written
    EXPECT_EQ(errno, EFAULT);
    mr = reg(pages + 2 * 4096, 10, IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(reg(pages, ~std::size_t{0}), nullptr);
    EXPECT_EQ(reg(pages, 10, IBV_ACCESS_REMOTE_WRITE), nullptr); // needs local write
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(reg(pages, 10, IBV_ACCESS_ON_DEMAND), nullptr);
    EXPECT_EQ(errno, EINVAL);
    munmap(pages, 3 * 4096);
}

TEST_F(Memory, KeysDifferAndOldOnesAreRefused)
{
    std::vector<unsigned char> memory(4096);
    std::vector<std::uint32_t> keys;
    for (unsigned i = 0; i < 1000; ++i) {
        ibv_mr* mr = reg(memory.data(), memory.size());
        ASSERT_NE(mr, nullptr);
        keys.push_back(mr->rkey);
        ASSERT_EQ(ibv_dereg_mr(mr), 0);
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

// The verbs are looked up: an earlier header does not declare them.
TEST_F(Memory, BuffersOfTheProvider)
{
    const auto alloc = reinterpret_cast<void* (*)(ibv_pd*, std::size_t, void**)>(
        dlsym(RTLD_DEFAULT, "ibv_alloc_buf"));
    const auto release = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "ibv_free_buf"));
    const auto reg_buf = reinterpret_cast<ibv_mr* (*)(ibv_pd*, void*, void*, std::size_t, int)>(
        dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr"));
    ASSERT_TRUE(alloc && release && reg_buf);
    void* buffer = nullptr;
    auto* start = static_cast<unsigned char*>(alloc(device.pd, 10000, &buffer));
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(start) % 4096, 0);
    EXPECT_EQ(reg_buf(device.pd, buffer, start + 1, 10000, kAllAccess), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(reg_buf(device.pd, buffer, start - 1, 10, kAllAccess), nullptr);
    ibv_pd* const other = ibv_alloc_pd(device.context);
    EXPECT_EQ(reg_buf(other, buffer, start, 10000, kAllAccess), nullptr);
    EXPECT_EQ(ibv_dealloc_pd(other), 0);

    ibv_mr* mr = reg_buf(device.pd, buffer, start + 100, 9900, kAllAccess);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->addr, start + 100);
    expect_written(mr, reinterpret_cast<std::uint64_t>(start + 9900), start + 9900);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    release(buffer);
}

TEST_F(Memory, RegistrationByAttributes)
{
    struct Attributes { // ibv_mr_init_attr
        std::size_t length;
        int access;
        std::uint64_t given, iova;
        void* address;
        int fd;
        std::uint64_t fd_offset;
        void *dma_handle, *buffer;
    };
    enum : std::uint64_t { kIova = 1, kAddress = 2, kFd = 4, kFdOffset = 8, kDmaHandle = 16 };
    const auto reg_ex =
        reinterpret_cast<ibv_mr* (*)(ibv_pd*, Attributes*)>(dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex"));
    ASSERT_TRUE(reg_ex);
    std::vector<unsigned char> memory(10000);
    Attributes attributes = {
        memory.size(), kAllAccess, kAddress | kIova, 0x1000, memory.data(), -1, 0,
        nullptr,       nullptr};
    ibv_mr* mr = reg_ex(device.pd, &attributes);
    ASSERT_NE(mr, nullptr);
    expect_written(mr, 0x1000 + 9900, memory.data() + 9900);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    for (const auto& [given, error] :
         std::vector<std::pair<std::uint64_t, int>>{{0, EINVAL},
                                                    {kFd, EINVAL},
                                                    {kFd | kFdOffset, EINVAL},
                                                    {kAddress | kFd | kFdOffset | kIova, EINVAL},
                                                    {kFd | kFdOffset | kIova, EBADF},
                                                    {kAddress | kDmaHandle, EOPNOTSUPP}}) {
        attributes.given = given;
        errno = 0;
        EXPECT_EQ(reg_ex(device.pd, &attributes), nullptr) << given;
        EXPECT_EQ(errno, error) << given;
    }
}

TEST_F(Memory, OtherAddressForPeers)
{
    std::vector<unsigned char> memory(10000);
    ibv_mr* mr = ibv_reg_mr_iova(device.pd, memory.data(), memory.size(), 0x1000, kAllAccess);
    ASSERT_NE(mr, nullptr);
    expect_written(mr, 0x1000 + 9900, memory.data() + 9900);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// A dmabuf as any file gives one: bytes from an offset, at an address of our own choice.
TEST_F(Memory, Dmabuf)
{
    const int fd = memfd_create("buffer", 0);
    ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
    auto* view = static_cast<unsigned char*>(
        mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    const auto before = counters();
    const std::uint64_t iova = 0x7f0000001000;
    ibv_mr* mr = ibv_reg_dmabuf_mr(device.pd, 8192 + 512, 100000, iova, fd, kAllAccess);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(counters().registrations_dmabuf, before.registrations_dmabuf + 1);
    Endpoint a(device), b(device);
    connect(a, b);
    for (std::uint32_t size : {64u, 90000u}) {
        fill(a.buffer.data(), size, size);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, size, iova, mr->rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(view + 8192 + 512, size, size));
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 200000, size, iova, mr->rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(a.buffer.data() + 200000, size, size));
    }
    EXPECT_EQ(counters().bytes_to_device - before.bytes_to_device, 64u + 90000u);
    EXPECT_EQ(counters().bytes_from_device - before.bytes_from_device, 64u + 90000u);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    errno = 0;
    EXPECT_EQ(ibv_reg_dmabuf_mr(device.pd, 0, 4096, 0, -1, kAllAccess), nullptr);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(ibv_reg_dmabuf_mr(device.pd, 4096, 1 << 20, 0, fd, kAllAccess), nullptr);
    EXPECT_EQ(errno, EINVAL); // beyond its end
    munmap(view, 1 << 20);
    close(fd);
}

ibv_mr* reg_device(Device& device, CUdeviceptr pointer, std::size_t size)
{
    errno = 0;
    return ibv_reg_mr(device.pd, reinterpret_cast<void*>(pointer), size, kAllAccess);
}

ibv_mr* reg_exported(Device& device, Cuda& cuda, CUdeviceptr pointer, std::size_t size)
{
    CUdeviceptr start = 0;
    const int fd = cuda.export_pages(pointer, size, start);
    EXPECT_GE(fd, 0);
    errno = 0;
    ibv_mr* mr = ibv_reg_dmabuf_mr(device.pd, pointer - start, size, pointer, fd, kAllAccess);
    const int error = errno;
    close(fd);
    errno = error;
    return mr;
}

// Device memory that the CPU cannot touch, on both sides and in both processes.
TEST(DISABLED_Configured, DeviceMemoryBetweenProcesses)
{
    constexpr std::size_t kSize = 4 << 20;
    Child child([](Child::Link& link) {
        Cuda cuda;
        Device device;
        const CUdeviceptr memory = cuda.allocate(kSize);
        ibv_mr* mr = reg_exported(device, cuda, memory, kSize);
        ASSERT_NE(mr, nullptr);
        Endpoint b(device);
        link.put(b.address());
        b.connect(link.get<Address>());
        link.put(Address{0, 0, {}, memory, mr->rkey});
        // Messages into device memory: in the entry, through a slot, directly.
        for (std::uint32_t size : {8u, 4000u, 1u << 20}) {
            ibv_sge list = {memory, size, mr->lkey};
            ibv_recv_wr wr = {0, nullptr, &list, 1};
            ibv_recv_wr* bad;
            ASSERT_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
            link.put('p');
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            std::vector<unsigned char> copy(size);
            cuda.get(copy.data(), memory, size);
            EXPECT_TRUE(is_filled(copy.data(), size, size)) << size;
        }
        link.put('c'); // checked: may be overwritten
        link.get<char>();
        std::vector<unsigned char> copy(kSize);
        cuda.get(copy.data(), memory, kSize);
        EXPECT_TRUE(is_filled(copy.data(), kSize, 3));
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    });
    Cuda cuda;
    Device device;
    const CUdeviceptr memory = cuda.allocate(kSize);
    ibv_mr* mr = reg_device(device, memory, kSize);
    ASSERT_NE(mr, nullptr);
    {
        Endpoint a(device);
        a.connect(child.link().get<Address>());
        child.link().put(a.address());
        const auto target = child.link().get<Address>();
        const auto before = counters();
        std::vector<unsigned char> data(kSize);
        const auto post = [&](ibv_wr_opcode opcode, std::uint32_t size) {
            ibv_sge list = {memory, size, mr->lkey};
            ibv_send_wr wr = {};
            wr.sg_list = &list;
            wr.num_sge = 1;
            wr.opcode = opcode;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.wr.rdma = {target.buffer, target.rkey};
            ASSERT_EQ(a.post(wr), 0);
            EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        };
        for (std::uint32_t size : {8u, 4000u, 1u << 20}) {
            fill(data.data(), size, size);
            cuda.put(memory, data.data(), size);
            child.link().get<char>();
            post(IBV_WR_SEND, size);
        }
        child.link().get<char>();
        fill(data.data(), kSize, 3);
        cuda.put(memory, data.data(), kSize);
        post(IBV_WR_RDMA_WRITE, kSize);
        fill(data.data(), kSize, 4);
        cuda.put(memory, data.data(), kSize);
        post(IBV_WR_RDMA_READ, kSize);
        cuda.get(data.data(), memory, kSize);
        EXPECT_TRUE(is_filled(data.data(), kSize, 3));
        const auto after = counters();
        EXPECT_EQ(after.bytes_from_device - before.bytes_from_device,
                  8u + 4000 + (1 << 20) + 2 * kSize);
        EXPECT_GE(after.bytes_to_device - before.bytes_to_device, 2 * kSize + (1 << 20));
        child.link().put('d');
        child.join();
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// What the environment says the HCA offers, against what it does.
TEST(DISABLED_Configured, WaysOfDeviceMemory)
{
    const std::string offered = getenv("SOFTHCA_GPU_DIRECT");
    Cuda cuda;
    Device device;
    const CUdeviceptr memory = cuda.allocate(65536);
    for (bool dmabuf : {false, true}) {
        ibv_mr* mr =
            dmabuf ? reg_exported(device, cuda, memory, 65536) : reg_device(device, memory, 65536);
        if (offered.find(dmabuf ? "dmabuf" : "peermem") != std::string::npos) {
            ASSERT_NE(mr, nullptr);
            EXPECT_EQ(ibv_dereg_mr(mr), 0);
        } else {
            EXPECT_EQ(mr, nullptr);
            EXPECT_EQ(errno, dmabuf ? EOPNOTSUPP : EFAULT);
        }
    }
    EXPECT_EQ(reg_device(device, memory + 65536 - 10, 1 << 20), nullptr); // beyond the allocation
}

TEST(Memory_, DeviceMemory)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.DeviceMemoryBetweenProcesses", {}));
    for (const char* offered : {"dmabuf", "peermem", "dmabuf,peermem", "none"}) {
        EXPECT_TRUE(run_tests("DISABLED_Configured.WaysOfDeviceMemory",
                              {std::string("SOFTHCA_GPU_DIRECT=") + offered}))
            << offered;
    }
}

TEST(DISABLED_Configured, Memlock)
{
    const rlimit limit = {64 << 10, 64 << 10};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    Device device;
    std::vector<unsigned char> memory(256 << 10);
    auto* start = reinterpret_cast<unsigned char*>(
        (reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) & ~std::uintptr_t{4095});
    const bool enforced = std::string(getenv("SOFTHCA_MEMLOCK")) == "enforce";
    ibv_mr* half = ibv_reg_mr(device.pd, start, 32 << 10, kAllAccess);
    ASSERT_NE(half, nullptr);
    ibv_mr* rest = ibv_reg_mr(device.pd, start, 32 << 10, kAllAccess);
    ASSERT_NE(rest, nullptr);
    errno = 0;
    ibv_mr* more = ibv_reg_mr(device.pd, start, 1, kAllAccess);
    if (enforced) {
        EXPECT_EQ(more, nullptr);
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_EQ(ibv_dereg_mr(rest), 0);
        more = ibv_reg_mr(device.pd, start, 1, kAllAccess);
        rest = nullptr;
    }
    ASSERT_NE(more, nullptr);
    EXPECT_EQ(ibv_dereg_mr(more), 0);
    if (rest != nullptr) {
        EXPECT_EQ(ibv_dereg_mr(rest), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(half), 0);
}

TEST(Memory_, MemlockLimitsHostMemory)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.Memlock", {"SOFTHCA_MEMLOCK=enforce"}));
    EXPECT_TRUE(run_tests("DISABLED_Configured.Memlock", {"SOFTHCA_MEMLOCK=off"}));
}

// With a child that lives meanwhile, and with a page that two regions have.
TEST(DISABLED_Configured, Fork)
{
    constexpr std::size_t page = 4096, length = 4 * page;
    const bool initialised = getenv("RDMAV_FORK_SAFE") != nullptr;
    EXPECT_EQ(ibv_is_fork_initialized(), initialised ? IBV_FORK_ENABLED : IBV_FORK_DISABLED);
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    auto* memory = static_cast<unsigned char*>(
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ibv_mr* mr = ibv_reg_mr(device.pd, memory, 3 * page, kAllAccess);
    ibv_mr* other = ibv_reg_mr(device.pd, memory + 2 * page, page, kAllAccess);
    EXPECT_EQ(ibv_fork_init(), initialised ? 0 : EINVAL);
    const auto child_has = [&](std::size_t offset) {
        const pid_t pid = fork();
        if (pid == 0) {
            _exit(madvise(memory + offset, page, MADV_NORMAL) == 0 ? 0 : 1);
        }
        int status;
        waitpid(pid, &status, 0);
        return status == 0;
    };
    EXPECT_TRUE(child_has(3 * page));
    for (std::size_t offset = 0; offset < 3 * page; offset += page) {
        EXPECT_EQ(child_has(offset), !initialised) << offset;
    }
    fill(memory, length, 1); // after the fork: the HCA has the new bytes only if no child shares
    const ibv_sge list = {reinterpret_cast<std::uint64_t>(memory),
                          static_cast<std::uint32_t>(3 * page), mr->lkey};
    ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, list, b.address().buffer, b.address().rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(is_filled(b.buffer.data(), 3 * page, 1), initialised);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_TRUE(child_has(0));
    EXPECT_EQ(child_has(2 * page), !initialised);
    EXPECT_EQ(ibv_dereg_mr(other), 0);
    EXPECT_TRUE(child_has(2 * page));
    munmap(memory, length);
}

TEST(Memory_, ForksPartItBeforeLinux512)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.Fork", {"SOFTHCA_COPY_ON_FORK=no"}));
    EXPECT_TRUE(
        run_tests("DISABLED_Configured.Fork", {"SOFTHCA_COPY_ON_FORK=no", "RDMAV_FORK_SAFE=1"}));
    EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

} // namespace
