// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem: what is registered with relaxed ordering of PCIe.
#include "mem_fixture.hpp"

#include "cuda/allocation.hpp"
#include "emu/softhca/softhca.h"
#include "verbs/relaxed_ordering.hpp"

#include <gtest/gtest.h>

#include <vector>

#include <sys/mman.h>

namespace gdr::mem {
namespace {

constexpr size_t kLength = 1 << 20;

struct softhca_counters counted()
{
    struct softhca_counters counters = {};
    reinterpret_cast<decltype(&softhca_counters)>(dlsym(RTLD_DEFAULT, "softhca_counters"))(
        &counters);
    return counters;
}

class RelaxedTest : public GpuCacheTest {
  protected:
    void SetUp() override
    {
        GpuCacheTest::SetUp();
        host_ = mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(host_, MAP_FAILED);
        ASSERT_EQ(
            cuda::allocate(*driver_, cuda::MemoryKind::device, context_->handle(), kLength, &gpu_),
            CUDA_SUCCESS);
    }

    void TearDown() override
    {
        cache_.reset();
        EXPECT_EQ(cuda::release(*driver_, gpu_), CUDA_SUCCESS);
        munmap(host_, kLength);
    }

    void use(Relaxed relaxed)
    {
        cache_.reset();
        cache_.emplace(*device_, pd_.get(), true, false, relaxed);
    }

    // How many registrations are made of it, all and relaxed.
    std::pair<uint64_t, uint64_t> made(void* memory, Access access, auto look)
    {
        const auto before = counted();
        Region* region =
            cache_->acquire(reinterpret_cast<uintptr_t>(memory), kLength, access, &failure_);
        EXPECT_NE(region, nullptr) << failure_.cause;
        if (region != nullptr) {
            look(*region);
            Cache::release(region);
        }
        const auto after = counted();
        const auto all = [](const struct softhca_counters& counters) {
            return counters.registrations + counters.registrations_peer +
                   counters.registrations_dmabuf;
        };
        return {all(after) - all(before),
                after.registrations_relaxed - before.registrations_relaxed};
    }

    void* host_ = MAP_FAILED;
    void* gpu_ = nullptr;
};

using Made = std::pair<uint64_t, uint64_t>;

void has_one_key(const Region& region)
{
    EXPECT_EQ(region.relaxed, nullptr);
    EXPECT_EQ(region.lkey, region.mr->lkey);
    EXPECT_EQ(region.rkey, region.mr->rkey);
}

void gives_peers_another_key(const Region& region)
{
    ASSERT_NE(region.relaxed, nullptr);
    EXPECT_EQ(region.lkey, region.relaxed->lkey);
    EXPECT_EQ(region.rkey, region.mr->rkey);
    EXPECT_NE(region.relaxed->rkey, region.mr->rkey);
}

TEST_F(RelaxedTest, is_nothing_unless_it_is_wanted)
{
    EXPECT_EQ(made(host_, Access::local, has_one_key), Made(1, 0));
    EXPECT_EQ(made(host_, Access::remote, has_one_key), Made(1, 0));
    made(gpu_, Access::remote, has_one_key);
    EXPECT_EQ(counted().registrations_relaxed, 0u);
}

TEST_F(RelaxedTest, is_for_this_side_alone)
{
    use({.host = true, .device = true});
    EXPECT_EQ(made(host_, Access::local, has_one_key), Made(1, 1));
    EXPECT_EQ(made(host_, Access::remote, gives_peers_another_key), Made(2, 1));
    // The test of the GPU is one more.
    EXPECT_EQ(made(gpu_, Access::local, gives_peers_another_key), Made(3, 1));
    EXPECT_EQ(made(gpu_, Access::remote, gives_peers_another_key), Made(0, 0));
}

TEST_F(RelaxedTest, ends_with_the_other)
{
    use({.host = true, .device = true});
    const auto before = counted();
    made(host_, Access::remote, gives_peers_another_key);
    made(gpu_, Access::remote, gives_peers_another_key);
    const auto address = reinterpret_cast<uintptr_t>(gpu_);
    Region* held = cache_->acquire(address, kLength, Access::remote, &failure_);
    cache_->end_freed(address, address + kLength);
    EXPECT_EQ(held->mr, nullptr);
    EXPECT_EQ(held->relaxed, nullptr);
    Cache::release(held);
    cache_.reset();
    const auto after = counted();
    EXPECT_EQ(after.deregistrations - before.deregistrations, 5u); // with the GPU's test
}

TEST_F(RelaxedTest, is_of_host_memory_alone)
{
    use({.host = true});
    EXPECT_EQ(made(host_, Access::remote, gives_peers_another_key), Made(2, 1));
    EXPECT_EQ(made(gpu_, Access::remote, has_one_key).second, 0u);
}

TEST_F(RelaxedTest, is_nothing_for_memory_that_may_only_be_read)
{
    use({.host = true});
    mprotect(host_, kLength, PROT_READ);
    EXPECT_EQ(made(host_, Access::remote, has_one_key), Made(1, 0));
}

} // namespace
} // namespace gdr::mem
