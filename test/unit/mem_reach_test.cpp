// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem: device memory of which HCAs can register a part, or nothing. The emulated GPUs have a
// BAR1 aperture of 1 GiB here (main()).
#include "cuda/allocation.hpp"
#include "mem/reach.hpp"
#include "mem_fixture.hpp"

#include <vector>

#include <unistd.h>

namespace gdr::mem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBar1 = 1024 * kMiB;

class ReachTest : public GpuCacheTest {
  protected:
    void TearDown() override
    {
        cache_.reset();
        for (void* memory : allocated_) {
            cuda::release(*driver_, memory);
        }
    }

    char* allocate(size_t length)
    {
        void* memory = nullptr;
        EXPECT_EQ(
            cuda::allocate(*driver_, cuda::MemoryKind::device, context_->handle(), length, &memory),
            CUDA_SUCCESS);
        allocated_.push_back(memory);
        return static_cast<char*>(memory);
    }

    Reach reach_of(const void* address, size_t length)
    {
        return reach(cuda::classify(*driver_, address), reinterpret_cast<uintptr_t>(address),
                     length);
    }

    Region* acquire(const void* address, size_t length)
    {
        return cache_->acquire(reinterpret_cast<uintptr_t>(address), length, Access::remote,
                               &failure_);
    }

    std::vector<void*> allocated_;
};

bool covers(const Reach& reach, const void* address, size_t length)
{
    const auto start = reinterpret_cast<uintptr_t>(address);
    return !reach.staged && reach.start <= start && start + length <= reach.end;
}

TEST_F(ReachTest, is_all_of_an_allocation_and_registered_once)
{
    const char* memory = allocate(kMiB);
    const Reach found = reach_of(memory + 5000, 8);
    EXPECT_TRUE(covers(found, memory, kMiB));
    EXPECT_EQ(found.limit, "");
    Region* region = acquire(memory, kMiB);
    ASSERT_NE(region, nullptr) << failure_.cause;
    Cache::release(region);
    EXPECT_EQ(cache_->registrations(), 1u);
}

TEST_F(ReachTest, is_asked_for_again_only_after_something_was_deregistered)
{
    const char* memory = allocate(kMiB);
    EXPECT_FALSE(reach_of(memory, 8).staged);
    const uint64_t changes = Cache::changes();
    EXPECT_FALSE(reach_of(memory + 1, 8).staged);
    EXPECT_EQ(Cache::changes(), changes);
    cache_->invalidate(acquire(memory, kMiB), {});
    EXPECT_NE(Cache::changes(), changes);
    EXPECT_FALSE(reach_of(memory, 8).staged);
    EXPECT_EQ(cache_->registrations(), 2u) << "not answered from memory";
}

TEST_F(ReachTest, is_a_part_where_the_whole_does_not_fit)
{
    const char* memory = allocate(2 * kBar1);
    const char* buffer = memory + kBar1 + 100;
    const Reach found = reach_of(buffer, kMiB);
    EXPECT_TRUE(covers(found, buffer, kMiB));
    EXPECT_LE(found.end - found.start, 2 * kMiB);
    EXPECT_NE(found.limit.find("BAR1"), std::string::npos) << found.limit;
    EXPECT_EQ(reach_of(memory, kMiB).limit, "") << "the whole is not tried again";
    // What was found out is what a transfer finds, and neighbours share it.
    const uint64_t registrations = cache_->registrations();
    Region* region = acquire(buffer + 64, 4096);
    ASSERT_NE(region, nullptr) << failure_.cause;
    EXPECT_EQ(region->start, found.start);
    EXPECT_EQ(cache_->registrations(), registrations);
    Cache::release(region);
}

TEST_F(ReachTest, is_nothing_where_the_aperture_is_full_until_it_is_not)
{
    char* full = allocate(kBar1);
    char* other = allocate(kMiB);
    EXPECT_FALSE(reach_of(full, kBar1).staged);
    const Reach found = reach_of(other, kMiB);
    EXPECT_TRUE(found.staged);
    EXPECT_NE(found.limit.find("BAR1"), std::string::npos) << found.limit;
    EXPECT_TRUE(covers(reach_of(full, kBar1), full, kBar1)) << "given up for another";
    // A transfer that does not ask takes what nobody uses.
    Region* region = acquire(other, kMiB);
    ASSERT_NE(region, nullptr) << failure_.cause;
    Cache::release(region);
    EXPECT_FALSE(reach_of(other, kMiB).staged);
}

TEST_F(ReachTest, takes_the_room_of_freed_memory)
{
    char* full = allocate(kBar1);
    EXPECT_FALSE(reach_of(full, kBar1).staged);
    cuda::release(*driver_, full);
    allocated_.clear();
    EXPECT_FALSE(reach_of(allocate(kBar1 / 2), kMiB).staged);
}

TEST_F(ReachTest, of_imported_memory_is_nothing)
{
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle made = 0, imported = 0;
    CUdeviceptr address = 0;
    int fd = -1;
    ASSERT_EQ(symbol<decltype(cuMemCreate)>("cuMemCreate")(&made, 2 * kMiB, &properties, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(symbol<decltype(cuMemExportToShareableHandle)>("cuMemExportToShareableHandle")(
                  &fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(symbol<decltype(cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle")(
                  &imported, reinterpret_cast<void*>(intptr_t{fd}),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_SUCCESS);
    close(fd);
    ASSERT_EQ(
        symbol<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, 2 * kMiB, 0, 0, 0),
        CUDA_SUCCESS);
    ASSERT_EQ(symbol<decltype(cuMemMap)>("cuMemMap")(address, 2 * kMiB, 0, imported, 0),
              CUDA_SUCCESS);
    const Reach found = reach_of(reinterpret_cast<void*>(address), kMiB);
    EXPECT_TRUE(found.staged);
    EXPECT_NE(found.limit.find("does not export"), std::string::npos) << found.limit;
    EXPECT_FALSE(reach_of(allocate(kMiB), kMiB).staged) << "of the same GPU";
    symbol<decltype(cuMemUnmap)>("cuMemUnmap")(address, 2 * kMiB);
    symbol<decltype(cuMemAddressFree)>("cuMemAddressFree")(address, 2 * kMiB);
    symbol<decltype(cuMemRelease)>("cuMemRelease")(imported);
    symbol<decltype(cuMemRelease)>("cuMemRelease")(made);
}

} // namespace
} // namespace gdr::mem
