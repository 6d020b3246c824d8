// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem: device memory that is made of several mappings side by side, which come and go.
#include "mem_fixture.hpp"

#include <cstring>

namespace gdr::mem {
namespace {

constexpr size_t kUnit = size_t{2} << 20;
constexpr size_t kUnits = 4;

class MappingsTest : public GpuCacheTest {
  protected:
    void SetUp() override
    {
        ASSERT_NO_FATAL_FAILURE(GpuCacheTest::SetUp());
        ASSERT_EQ(symbol<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(
                      &range_, kUnits * kUnit, 0, 0, 0),
                  CUDA_SUCCESS);
    }
    void TearDown() override
    {
        cache_.reset();
        for (size_t unit = 0; unit < kUnits; ++unit) {
            unmap(unit);
        }
        symbol<decltype(cuMemAddressFree)>("cuMemAddressFree")(range_, kUnits * kUnit);
    }

    void map(size_t unit)
    {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.allocFlags.gpuDirectRDMACapable = 1;
        CUmemAccessDesc access{};
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CUmemGenericAllocationHandle handle = 0;
        ASSERT_EQ(symbol<decltype(cuMemCreate)>("cuMemCreate")(&handle, kUnit, &properties, 0),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemMap)>("cuMemMap")(at(unit), kUnit, 0, handle, 0),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemSetAccess)>("cuMemSetAccess")(at(unit), kUnit, &access, 1),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemRelease)>("cuMemRelease")(handle), CUDA_SUCCESS);
    }
    // What is not mapped stays so.
    void unmap(size_t unit) { symbol<decltype(cuMemUnmap)>("cuMemUnmap")(at(unit), kUnit); }

    CUdeviceptr at(size_t unit) const { return range_ + unit * kUnit; }

    // The registration that serves a buffer around the beginning of a unit.
    Region* acquire(size_t unit, size_t before, size_t length)
    {
        Region* region = cache_->acquire(at(unit) - before, length, Access::remote, &failure_);
        EXPECT_NE(region, nullptr) << failure_.cause;
        return region;
    }
    // How many registrations a buffer makes.
    uint64_t made_by(size_t unit, size_t before, size_t length)
    {
        const uint64_t old = cache_->registrations();
        if (Region* region = acquire(unit, before, length)) {
            Cache::release(region);
        }
        return cache_->registrations() - old;
    }

    CUdeviceptr range_ = 0;
};

TEST_F(MappingsTest, are_registered_together_once)
{
    for (size_t unit : {0, 1, 2}) {
        map(unit);
    }
    EXPECT_EQ(made_by(1, 100, 200), 1u);
    EXPECT_EQ(made_by(2, 100, 200), 0u);
    EXPECT_EQ(made_by(1, 100, kUnit + 200), 0u);
    EXPECT_EQ(made_by(0, 0, 8), 0u);
}

TEST_F(MappingsTest, grow)
{
    map(1);
    EXPECT_EQ(made_by(1, 0, 8), 1u);
    map(2);
    EXPECT_EQ(made_by(1, 0, 8), 0u);
    EXPECT_EQ(made_by(2, 100, 200), 1u);
    map(0);
    EXPECT_EQ(made_by(1, 100, 200), 1u);
    EXPECT_EQ(made_by(2, 100, 200), 0u);
}

// An old registration reaches memory that is nobody's any more.
TEST_F(MappingsTest, are_registered_again_when_one_was_replaced)
{
    for (size_t unit : {0, 1, 2}) {
        map(unit);
    }
    EXPECT_EQ(made_by(1, 100, 200), 1u);
    unmap(1);
    map(1);
    EXPECT_EQ(made_by(0, 0, 8), 0u); // not touched
    EXPECT_EQ(made_by(1, 100, 200), 1u);
    EXPECT_EQ(made_by(2, 100, 200), 0u);
    unmap(1);
    map(1);
    EXPECT_EQ(made_by(1, 100, kUnit + 200), 1u); // in the middle
    unmap(2);
    map(2);
    EXPECT_EQ(made_by(2, 100, 200), 1u);
}

TEST_F(MappingsTest, have_holes)
{
    map(0);
    map(2);
    EXPECT_EQ(made_by(0, 0, 8), 1u);
    EXPECT_EQ(made_by(2, 0, 8), 1u);
    Failure failure;
    EXPECT_EQ(cache_->acquire(at(1) - 100, 200, Access::remote, &failure), nullptr);
    EXPECT_FALSE(failure.cause.empty());
}

} // namespace
} // namespace gdr::mem
