// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Packing and unpacking by the GPU against a loop on the CPU, on the driver that LD_LIBRARY_PATH or
// the system gives: the emulated one, or a real GPU's.
#include "../tap.hpp"
#include "gpu.hpp"
#include "kernels/packing.hpp"
#include "some_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>

#include <dlfcn.h>

using namespace gdr::kernels;

namespace {

constexpr uint32_t kMostWords = uint32_t{1} << 30;

using Random = std::mt19937_64;

uint64_t seed()
{
    static const uint64_t chosen = [] {
        const char* given = std::getenv("PACKING_TEST_SEED");
        return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    }();
    return chosen;
}

uint64_t between(Random& random, uint64_t least, uint64_t most)
{
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
}

// An element's blocks in the order of packing, as somebody would write them down who knows nothing
// of Layout.
struct Description {
    std::vector<Block> blocks;
    int64_t extent;
};

struct Case {
    Layout layout;
    Description plain;
};

Case strided(int64_t offset, uint64_t length, std::vector<Dimension> loops, int64_t extent)
{
    std::vector<Block> blocks{{offset, length}};
    for (const Dimension& loop : loops) {
        std::vector<Block> inner = std::move(blocks);
        blocks.clear();
        for (uint64_t i = 0; i < loop.count; ++i) {
            for (const Block& block : inner) {
                blocks.push_back(
                    {block.offset + static_cast<int64_t>(i) * loop.stride, block.length});
            }
        }
    }
    return {Layout::strided(offset, length, loops, extent), {std::move(blocks), extent}};
}

Case list(std::vector<Block> blocks, int64_t extent)
{
    Layout layout = Layout::list(blocks, extent);
    return {std::move(layout), {std::move(blocks), extent}};
}

// Elements in memory: where the first one is, and the room that all need.
struct Room {
    int64_t least = 0, most = 0;

    Room(const Description& plain, uint64_t count)
    {
        if (plain.blocks.empty()) {
            return;
        }
        least = std::numeric_limits<int64_t>::max();
        most = std::numeric_limits<int64_t>::min();
        for (uint64_t element : {uint64_t{0}, count - 1}) {
            for (const Block& block : plain.blocks) {
                const int64_t begin = block.offset + static_cast<int64_t>(element) * plain.extent;
                least = std::min(least, begin);
                most = std::max(most, begin + static_cast<int64_t>(block.length));
            }
        }
        least &= ~int64_t{15}; // keeps the alignment
    }
    size_t size() const { return static_cast<size_t>(most - least) + 1; }
};

template <typename Visit>
void for_each_byte(const Description& plain, uint64_t count, Visit visit)
{
    uint64_t position = 0;
    for (uint64_t element = 0; element < count; ++element) {
        for (const Block& block : plain.blocks) {
            for (uint64_t i = 0; i < block.length; ++i) {
                visit(position++, static_cast<int64_t>(element) * plain.extent + block.offset +
                                      static_cast<int64_t>(i));
            }
        }
    }
}

std::vector<uint8_t> noise(Random& random, size_t size)
{
    std::vector<uint8_t> bytes(size);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
    return bytes;
}

class PackingTest : public testing::Test {
  protected:
    void SetUp() override
    {
        const gdr::cuda::Driver* driver = gdr::cuda::driver();
        if (driver == nullptr) {
            GTEST_SKIP() << "no CUDA driver: " << gdr::cuda::unavailable_reason();
        }
        if (!built()) {
            GTEST_SKIP() << why_not_built();
        }
        gpu_.emplace(*driver);
        kernels_.emplace(*driver, gpu_->context(), pack_ptx);
        RecordProperty("seed", std::to_string(seed()));
    }

    // Packs [from, to) of the elements and unpacks it elsewhere; skew: how far the buffers are from
    // an address that suits all words.
    void check(const Case& one, uint64_t count, uint64_t from, uint64_t to, size_t skew = 0,
               uint32_t most_words = kMostWords)
    {
        SCOPED_TRACE("count " + std::to_string(count) + " from " + std::to_string(from) + " to " +
                     std::to_string(to) + " skew " + std::to_string(skew));
        Random random(seed() + from + to);
        const Room room(one.plain, count);
        const size_t margin = 16 + skew;
        const std::vector<uint8_t> memory = noise(random, room.size() + margin);
        const std::vector<uint8_t> stale = noise(random, to - from + 2 * margin);
        const std::vector<uint8_t> target = noise(random, memory.size());
        std::vector<uint8_t> packed = stale, unpacked = target;
        const auto place = [&](int64_t offset) {
            return static_cast<size_t>(offset - room.least) + skew;
        };
        for_each_byte(one.plain, count, [&](uint64_t position, int64_t offset) {
            if (position >= from && position < to) {
                packed[margin + position - from] = memory[place(offset)];
                unpacked[place(offset)] = memory[place(offset)];
            }
        });

        const Packing packing(*kernels_, one.layout, most_words);
        const DeviceBuffer source(*gpu_, memory), stream(*gpu_, stale), sink(*gpu_, target);
        packing.pack(source.address() + skew - room.least, count, from, to,
                     stream.address() + margin, gpu_->stream());
        packing.unpack(sink.address() + skew - room.least, count, from, to,
                       stream.address() + margin, gpu_->stream());
        gpu_->wait();
        EXPECT_TRUE(stream.read() == packed) << "packed";
        EXPECT_TRUE(sink.read() == unpacked) << "unpacked";
        EXPECT_TRUE(source.read() == memory) << "what was packed has changed";
    }
    void check_all(const Case& one, uint64_t count = 1)
    {
        check(one, count, 0, count * one.layout.size());
    }

    std::optional<Gpu> gpu_;
    std::optional<LoadedKernels> kernels_;
};

// A function of the emulated driver alone; nullptr of a real one.
template <typename Function>
Function softcuda(const char* name)
{
    return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}

bool emulated()
{
    return softcuda<void*>("softcuda_calls") != nullptr;
}

Case random_strided(Random& random)
{
    const uint64_t unit = uint64_t{1} << between(random, 0, 4);
    const uint64_t length = unit * between(random, 1, 6);
    std::vector<Dimension> loops(between(random, 0, 3));
    uint64_t span = length;
    for (Dimension& loop : loops) {
        loop.count = between(random, 1, 7);
        loop.stride =
            static_cast<int64_t>(span + unit * (random() % 2 ? between(random, 0, 5) : 0));
        span = static_cast<uint64_t>(loop.stride) * loop.count;
        if (random() % 4 == 0) {
            loop.stride = -loop.stride;
        }
    }
    const auto offset = static_cast<int64_t>(unit * between(random, 0, 10)) - 30;
    auto extent = static_cast<int64_t>(span + unit * between(random, 0, 3));
    return strided(random() % 2 ? offset : 0, length, loops, random() % 5 ? extent : -extent);
}

Case random_list(Random& random)
{
    const uint64_t unit = uint64_t{1} << between(random, 0, 4);
    std::vector<Block> blocks;
    uint64_t end = 0;
    for (uint64_t n = between(random, 0, 60); n > 0; --n) {
        end += unit * between(random, 0, 3);
        const uint64_t length = unit * (random() % 20 == 0 ? 500 : between(random, 0, 4));
        blocks.push_back({static_cast<int64_t>(end) - 64, length});
        end += length;
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    return list(std::move(blocks), static_cast<int64_t>(end + unit * between(random, 0, 3)));
}

} // namespace

TEST_F(PackingTest, VectorsOfAllWordSizes)
{
    for (uint64_t length : {1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 100}) {
        check_all(strided(0, length, {{1000, static_cast<int64_t>(3 * length)}}, 5));
    }
}

TEST_F(PackingTest, WhatHasNoGapsIsCopied)
{
    const Case whole = strided(8, 4, {{4, 4}, {5, 16}}, 80);
    ASSERT_NE(whole.layout.strided(), nullptr);
    EXPECT_EQ(whole.layout.strided()->loops, 0u);
    EXPECT_EQ(whole.layout.strided()->length, 80u);
    check_all(whole, 3);
    check(whole, 3, 17, 201);
}

TEST_F(PackingTest, ThreeDimensionsAndManyElements)
{
    const Case part = strided(24, 8, {{5, 16}, {7, 128}, {3, 2048}}, 8192);
    EXPECT_EQ(part.layout.strided()->loops, 3u);
    check_all(part, 11);
    check(part, 11, 8, 840 * 9);
    check(part, 11, 13, 840 * 9 + 1);
}

TEST_F(PackingTest, MoreDimensionsThanThreeAreRefusedUnlessTheyMerge)
{
    const std::vector<Dimension> four{{2, 16}, {3, 64}, {2, 512}, {2, 4096}};
    EXPECT_THROW(Layout::strided(0, 8, four, 0), std::invalid_argument);
    const std::vector<Dimension> merging{{2, 16}, {3, 64}, {2, 192}, {2, 4096}};
    EXPECT_EQ(Layout::strided(0, 8, merging, 0).strided()->loops, 3u);
}

TEST_F(PackingTest, ListsOfBlocks)
{
    const Case blocks = list({{100, 8}, {0, 24}, {40, 16}, {64, 8}, {300, 400}}, 704);
    EXPECT_EQ(blocks.layout.strided(), nullptr);
    check_all(blocks, 9);
    check(blocks, 9, 24, 4000);
    check(blocks, 9, 457, 2001);
}

TEST_F(PackingTest, ARegularListIsALoop)
{
    const Case regular = list({{0, 4}, {4, 4}, {20, 8}, {40, 8}}, 60);
    ASSERT_NE(regular.layout.strided(), nullptr);
    EXPECT_EQ(regular.layout.strided()->loops, 1u);
    check_all(regular, 7);
}

TEST_F(PackingTest, NothingIsNothing)
{
    const Case empty = list({{3, 0}}, 10), none = strided(0, 8, {{0, 16}}, 16);
    EXPECT_EQ(empty.layout.size() + none.layout.size(), 0u);
    check_all(empty, 5);
    check_all(none, 5);
    check(strided(0, 8, {{4, 16}}, 64), 2, 20, 20);
}

TEST_F(PackingTest, ARangeOutsideIsRefused)
{
    const Packing packing(*kernels_, Layout::strided(0, 8, {}, 16));
    char any;
    EXPECT_THROW(packing.pack(&any, 2, 0, 17, &any, gpu_->stream()), std::out_of_range);
    EXPECT_THROW(packing.unpack(&any, 2, 9, 8, &any, gpu_->stream()), std::out_of_range);
    EXPECT_THROW(packing.pack(&any, ~uint64_t{0}, 0, 1, &any, gpu_->stream()), std::out_of_range);
}

TEST_F(PackingTest, RandomLayouts)
{
    Random random(seed());
    for (int i = 0; i < 150; ++i) {
        SCOPED_TRACE("PACKING_TEST_SEED=" + std::to_string(seed()) + " case " + std::to_string(i));
        const Case one = i % 3 == 0 ? random_list(random) : random_strided(random);
        const uint64_t count = between(random, 1, 9);
        const uint64_t size = count * one.layout.size();
        uint64_t from = between(random, 0, size), to = between(random, 0, size);
        if (from > to) {
            std::swap(from, to);
        }
        check_all(one, count);
        check(one, count, from, to, random() % 2 ? between(random, 0, 15) : 0);
        // The same in pieces as large numbers make them necessary.
        check(one, count, from, to, 0, static_cast<uint32_t>(between(random, 1, 100)));
        if (HasFailure()) {
            break;
        }
    }
}

TEST_F(PackingTest, AMillionBlocks)
{
    check_all(strided(0, 8, {{1'000'000, 16}}, 16));
    std::vector<Block> blocks;
    Random random(seed());
    int64_t offset = 0;
    for (int i = 0; i < 200'000; ++i) {
        offset += static_cast<int64_t>(8 * between(random, 2, 4));
        blocks.push_back({offset, 8});
    }
    check_all(list(std::move(blocks), offset));
}

TEST_F(PackingTest, PinnedHostMemoryWillDo)
{
    const auto& driver = gpu_->driver();
    const Packing packing(*kernels_, Layout::strided(0, 8, std::vector<Dimension>{{4, 16}}, 64));
    alignas(4096) static uint64_t packed[512];
    ASSERT_EQ(driver.cuMemHostRegister(packed, sizeof(packed), 0), CUDA_SUCCESS);
    const std::vector<uint8_t> memory(64, 7);
    const DeviceBuffer source(*gpu_, memory);
    packing.pack(source.address(), 1, 0, 32, packed, gpu_->stream());
    gpu_->wait();
    EXPECT_EQ(packed[0], 0x0707070707070707u);
    EXPECT_EQ(packed[3], 0x0707070707070707u);
    EXPECT_EQ(packed[4], 0u);
    EXPECT_EQ(driver.cuMemHostUnregister(packed), CUDA_SUCCESS);
}

// The emulated GPU sees each access: what would be luck on a real one, which knows pages, fails.
TEST_F(PackingTest, WhatIsBehindTheBufferIsNotReached)
{
    if (!emulated()) {
        GTEST_SKIP() << "a real driver";
    }
    const Packing packing(*kernels_, Layout::strided(0, 8, std::vector<Dimension>{{4, 16}}, 64));
    const DeviceBuffer source(*gpu_, 56), packed(*gpu_, 32);
    packing.pack(source.address(), 1, 0, 32, packed.address(), gpu_->stream());
    gpu_->wait();
    packing.pack(source.address() + 8, 1, 0, 32, packed.address(), gpu_->stream());
    EXPECT_EQ(gpu_->driver().cuStreamSynchronize(gpu_->stream()), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(PackingTest, HostMemoryIsNotReached)
{
    if (!emulated()) {
        GTEST_SKIP() << "a real driver";
    }
    const Packing packing(*kernels_, Layout::list(std::vector<Block>{{0, 8}, {24, 16}}, 64));
    const DeviceBuffer packed(*gpu_, 32);
    std::vector<uint64_t> heap(8);
    packing.unpack(heap.data(), 1, 0, 24, packed.address(), gpu_->stream());
    EXPECT_EQ(gpu_->driver().cuStreamSynchronize(gpu_->stream()), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// In the steady state CUDA is called once, whatever the number of blocks: counted by the emulation.
TEST_F(PackingTest, ALaunchIsOneCall)
{
    if (!emulated()) {
        GTEST_SKIP() << "a real driver";
    }
    const auto calls = softcuda<uint64_t (*)(const char*)>("softcuda_call_count");
    const Packing vector(*kernels_, Layout::strided(0, 8, std::vector<Dimension>{{100, 16}}, 1600));
    const Packing blocks(*kernels_, Layout::list(std::vector<Block>{{0, 8}, {24, 16}}, 64));
    vector.prepare(nullptr, 8);
    const uint64_t loads = calls("cuModuleLoadData");
    blocks.prepare(nullptr, 8);
    EXPECT_EQ(calls("cuModuleLoadData"), loads + 2); // one for each direction
    blocks.prepare(nullptr, 8);
    EXPECT_EQ(calls("cuModuleLoadData"), loads + 2);
    const DeviceBuffer memory(*gpu_, 8 * 1600), packed(*gpu_, 8 * 800);
    const auto count_all = [&] {
        return softcuda<uint64_t (*)()>("softcuda_calls")() -
               calls("cuThreadExchangeStreamCaptureMode");
    };
    const uint64_t before = count_all(), launches = calls("cuLaunchKernel");
    vector.pack(memory.address(), 8, 0, 6400, packed.address(), gpu_->stream());
    vector.unpack(memory.address(), 8, 8, 160, packed.address(), gpu_->stream());
    blocks.pack(memory.address(), 8, 0, 24 * 8, packed.address(), gpu_->stream());
    EXPECT_EQ(calls("cuLaunchKernel"), launches + 3);
    EXPECT_EQ(count_all(), before + 3);
    gpu_->wait();
}

int main(int argc, char** argv)
{
    run_on_some_gpu(argc, argv);
    std::printf("PACKING_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed()));
    return run_tests(argc, argv);
}
