// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem on the emulated HCA and driver: the unmap log, the choice of a registration method, and
// the registration cache, above all that it never hands out a registration of memory that is gone.
#include "../emu/preload.hpp"

#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "mem/cache.hpp"
#include "mem/host_pages.hpp"
#include "verbs/error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gdr::mem {
namespace {

constexpr size_t kPage = 4096;

// ---- UnmapLog
TEST(UnmapLog, returns_ranges_in_order_to_every_reader)
{
    UnmapLog log;
    uint64_t first = log.end();
    uint64_t second = first;
    log.append(0x1000, 0x2000);
    log.append(0x8000, 0x1000);
    for (uint64_t* position : {&first, &second}) {
        UnmapLog::Range range;
        ASSERT_EQ(log.read(position, &range), UnmapLog::Result::range);
        EXPECT_EQ(range.start, 0x1000u);
        EXPECT_EQ(range.length, 0x2000u);
        ASSERT_EQ(log.read(position, &range), UnmapLog::Result::range);
        EXPECT_EQ(range.start, 0x8000u);
        EXPECT_EQ(log.read(position, &range), UnmapLog::Result::none);
    }
}

TEST(UnmapLog, says_when_ranges_were_lost)
{
    UnmapLog log;
    uint64_t position = log.end();
    for (int i = 0; i < 5000; ++i) {
        log.append(i * kPage, kPage);
    }
    UnmapLog::Range range;
    EXPECT_EQ(log.read(&position, &range), UnmapLog::Result::lost);
    EXPECT_EQ(log.read(&position, &range), UnmapLog::Result::none);
}

TEST(UnmapLog, never_shows_a_torn_range)
{
    UnmapLog log;
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (int w = 1; w <= 3; ++w) {
        writers.emplace_back([&, w] {
            while (!stop) {
                log.append(static_cast<uintptr_t>(w) << 20, static_cast<size_t>(w));
            }
        });
    }
    uint64_t position = log.end();
    for (int read = 0; read < 20000;) {
        UnmapLog::Range range;
        if (log.read(&position, &range) == UnmapLog::Result::range) {
            ASSERT_EQ(range.start, range.length << 20);
            ++read;
        } else {
            ++read; // lost or nothing: the writers are ahead or asleep
            std::this_thread::yield();
        }
    }
    stop = true;
    for (std::thread& writer : writers) {
        writer.join();
    }
}

// ---- Cache
class CacheTest : public testing::Test {
  protected:
    void SetUp() override
    {
        device_.emplace("softhca0");
        pd_.reset(ibv_alloc_pd(device_->context()));
        ASSERT_TRUE(pd_);
        driver_ = cuda::driver();
        ASSERT_NE(driver_, nullptr) << cuda::unavailable_reason();
        context_.emplace(*driver_, 0);
        cache_.emplace(*device_, pd_.get(), true);
    }

    Region* acquire(const void* address, size_t length)
    {
        Region* region = cache_->acquire(reinterpret_cast<uintptr_t>(address), length, &failure_);
        EXPECT_NE(region, nullptr) << failure_.cause;
        return region;
    }

    void* allocate(size_t length)
    {
        void* memory = nullptr;
        EXPECT_EQ(
            cuda::allocate(*driver_, cuda::MemoryKind::device, context_->handle(), length, &memory),
            CUDA_SUCCESS);
        return memory;
    }
    void release(void* memory) { EXPECT_EQ(cuda::release(*driver_, memory), CUDA_SUCCESS); }

    static void* map(size_t length)
    {
        return mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    // As UCX's memory hooks report it.
    static void unmap(void* memory, size_t length)
    {
        UnmapLog::instance().append(reinterpret_cast<uintptr_t>(memory), length);
        munmap(memory, length);
    }

    std::optional<verbs::Device> device_;
    verbs::ProtectionDomain pd_;
    const cuda::Driver* driver_ = nullptr;
    std::optional<cuda::PrimaryContext> context_;
    std::optional<Cache> cache_;
    Failure failure_;
};

// ---- host_pages
class HostPagesTest : public testing::Test {
  protected:
    HostPagesTest()
        : memory_(
              mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          start_(reinterpret_cast<uintptr_t>(memory_))
    {
        // Whatever was unmapped here before is behind this thread.
        EXPECT_FALSE(host_pages::contains(start_));
    }
    ~HostPagesTest() override
    {
        UnmapLog::instance().append(start_, 4 * kPage);
        munmap(memory_, 4 * kPage);
    }

    void* memory_;
    uintptr_t start_;
};

TEST_F(HostPagesTest, knows_the_page_of_an_address)
{
    EXPECT_FALSE(host_pages::contains(start_ + kPage));
    host_pages::add(start_ + kPage + 100);
    EXPECT_TRUE(host_pages::contains(start_ + kPage));
    EXPECT_TRUE(host_pages::contains(start_ + 2 * kPage - 1));
    EXPECT_FALSE(host_pages::contains(start_));
    EXPECT_FALSE(host_pages::contains(start_ + 2 * kPage));
    EXPECT_FALSE(host_pages::contains(0));
}

TEST_F(HostPagesTest, takes_nothing_that_the_cpu_cannot_read)
{
    ASSERT_EQ(mprotect(memory_, kPage, PROT_NONE), 0);
    host_pages::add(start_);
    EXPECT_FALSE(host_pages::contains(start_));
    host_pages::add(0);
    EXPECT_FALSE(host_pages::contains(0));
}

TEST_F(HostPagesTest, forgets_what_is_unmapped_and_only_that)
{
    for (int page = 0; page < 4; ++page)
        host_pages::add(start_ + page * kPage);
    UnmapLog::instance().append(start_ + kPage, 2 * kPage);
    EXPECT_TRUE(host_pages::contains(start_));
    EXPECT_FALSE(host_pages::contains(start_ + kPage));
    EXPECT_FALSE(host_pages::contains(start_ + 2 * kPage));
    EXPECT_TRUE(host_pages::contains(start_ + 3 * kPage));
}

TEST_F(HostPagesTest, forgets_everything_when_the_log_is_lost)
{
    host_pages::add(start_);
    for (int i = 0; i < 5000; ++i)
        UnmapLog::instance().append(kPage, kPage);
    EXPECT_FALSE(host_pages::contains(start_));
}

TEST_F(CacheTest, finds_host_memory_again)
{
    void* memory = map(16 * kPage);
    Region* whole = acquire(memory, 16 * kPage);
    Region* part = acquire(static_cast<char*>(memory) + 100, 3 * kPage);
    EXPECT_EQ(whole, part);
    EXPECT_EQ(whole->kind, MemoryKind::host);
    EXPECT_EQ(cache_->registrations(), 1u);
    Cache::release(whole);
    Cache::release(part);
    Cache::release(acquire(memory, kPage));
    EXPECT_EQ(cache_->registrations(), 1u);
    unmap(memory, 16 * kPage);
}

TEST_F(CacheTest, joins_overlapping_host_memory)
{
    void* memory = map(8 * kPage);
    char* bytes = static_cast<char*>(memory);
    Cache::release(acquire(bytes, 4 * kPage));
    Region* joined = acquire(bytes + 3 * kPage, 4 * kPage);
    EXPECT_TRUE(joined->covers(reinterpret_cast<uintptr_t>(bytes), 7 * kPage));
    Cache::release(joined);
    EXPECT_EQ(acquire(bytes, kPage), joined);
    Cache::release(joined);
    unmap(memory, 8 * kPage);
}

TEST_F(CacheTest, forgets_unmapped_host_memory)
{
    void* memory = map(4 * kPage);
    Region* region = acquire(memory, 4 * kPage);
    uint32_t old_key = region->rkey;
    Cache::release(region);
    unmap(memory, 4 * kPage);
    void* again = mmap(memory, 4 * kPage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(again, memory);
    region = acquire(memory, 4 * kPage);
    EXPECT_NE(region->rkey, old_key);
    EXPECT_EQ(cache_->registrations(), 2u);
    Cache::release(region);
    unmap(memory, 4 * kPage);
}

TEST_F(CacheTest, keeps_what_is_in_use_registered_until_released)
{
    void* memory = map(kPage);
    Region* used = acquire(memory, kPage);
    UnmapLog::instance().append(reinterpret_cast<uintptr_t>(memory), kPage);
    Region* fresh = acquire(memory, kPage);
    EXPECT_NE(used, fresh);
    EXPECT_NE(used->mr, nullptr);
    Cache::release(used);
    Cache::release(fresh);
    unmap(memory, kPage);
}

TEST_F(CacheTest, registers_a_whole_device_allocation_once)
{
    void* memory = allocate(1 << 20);
    Region* part = acquire(static_cast<char*>(memory) + 5000, 8);
    EXPECT_EQ(part->kind, MemoryKind::device);
    EXPECT_TRUE(part->covers(reinterpret_cast<uintptr_t>(memory), 1 << 20));
    Region* whole = acquire(memory, 1 << 20);
    EXPECT_EQ(part, whole);
    EXPECT_EQ(cache_->registrations(), 1u);
    Cache::release(part);
    Cache::release(whole);
    release(memory);
}

// The test that the check of BUFFER_ID is for: both ways to find a region again, remembered by the
// thread and looked up by another.
TEST_F(CacheTest, never_finds_freed_device_memory)
{
    void* memory = allocate(1 << 16);
    Cache::release(acquire(memory, 64));
    for (bool other_thread : {false, true}) {
        uint64_t before = cache_->registrations();
        release(memory);
        void* again = allocate(1 << 16);
        ASSERT_EQ(again, memory) << "the emulated driver gives a freed address out again";
        auto look = [&] { Cache::release(acquire(memory, 64)); };
        if (other_thread) {
            std::thread(look).join();
        } else {
            look();
        }
        EXPECT_EQ(cache_->registrations(), before + 1);
    }
    release(memory);
}

TEST_F(CacheTest, refuses_managed_memory_with_the_reason)
{
    void* memory = nullptr;
    ASSERT_EQ(
        cuda::allocate(*driver_, cuda::MemoryKind::managed, context_->handle(), kPage, &memory),
        CUDA_SUCCESS);
    EXPECT_EQ(cache_->acquire(reinterpret_cast<uintptr_t>(memory), 8, &failure_), nullptr);
    EXPECT_TRUE(failure_.unsupported);
    EXPECT_NE(failure_.cause.find("managed"), std::string::npos);
    release(memory);
}

TEST_F(CacheTest, names_the_cause_when_memory_cannot_be_registered)
{
    void* memory = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(cache_->acquire(reinterpret_cast<uintptr_t>(memory), 8, &failure_), nullptr);
    EXPECT_EQ(failure_.error, EFAULT);
    EXPECT_NE(failure_.cause.find("Bad address"), std::string::npos) << failure_.cause;
    munmap(memory, kPage);
}

TEST_F(CacheTest, tells_when_invalidated_memory_is_out_of_reach)
{
    void* memory = map(kPage);
    Region* first = acquire(memory, kPage);
    Region* second = acquire(memory, kPage);
    int calls = 0;
    cache_->invalidate(first, {[](void* arg) { ++*static_cast<int*>(arg); }, &calls});
    EXPECT_EQ(calls, 0) << "somebody still uses it";
    Region* fresh = acquire(memory, kPage);
    EXPECT_NE(fresh, second);
    Cache::release(second);
    EXPECT_EQ(calls, 1);
    Cache::release(fresh);
    unmap(memory, kPage);
}

TEST_F(CacheTest, does_not_keep_host_memory_whose_unmapping_is_not_seen)
{
    Cache blind(*device_, pd_.get(), false);
    void* memory = map(kPage);
    for (uint64_t i = 1; i <= 2; ++i) {
        Region* region = blind.acquire(reinterpret_cast<uintptr_t>(memory), kPage, &failure_);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(blind.registrations(), i);
        Cache::release(region);
    }
    munmap(memory, kPage);
}

TEST_F(CacheTest, registers_read_only_memory_for_reading_and_does_not_keep_it)
{
    auto* memory = static_cast<char*>(map(3 * kPage));
    Region* before = acquire(memory, 2 * kPage);
    EXPECT_FALSE(before->read_only);
    mprotect(memory + kPage, 2 * kPage, PROT_READ);
    for (uint64_t i = 2; i <= 3; ++i) {
        Region* region = acquire(memory + kPage + 10, kPage);
        EXPECT_TRUE(region->read_only);
        EXPECT_EQ(cache_->registrations(), i);
        Cache::release(region);
    }
    // The first page can be written; what it was registered with cannot.
    Region* first = acquire(memory + 10, kPage - 10);
    EXPECT_FALSE(first->read_only);
    mprotect(memory + kPage, 2 * kPage, PROT_READ | PROT_WRITE);
    Region* again = acquire(memory + kPage + 10, kPage);
    EXPECT_FALSE(again->read_only);
    for (Region* region : {before, first, again}) {
        Cache::release(region);
    }
    unmap(memory, 3 * kPage);
}

TEST_F(CacheTest, serves_many_threads)
{
    constexpr int kThreads = 4;
    constexpr size_t kLength = 64 * kPage;
    char* memory = static_cast<char*>(map(kLength));
    void* gpu = allocate(1 << 20);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            Failure failure;
            for (int i = 0; i < 2000; ++i) {
                size_t offset = static_cast<size_t>((i * 7 + t * 13) % 60) * kPage;
                auto host = reinterpret_cast<uintptr_t>(memory + offset);
                Region* region = cache_->acquire(host, 2 * kPage, &failure);
                ASSERT_NE(region, nullptr) << failure.cause;
                ASSERT_TRUE(region->covers(host, 2 * kPage));
                Region* device =
                    cache_->acquire(reinterpret_cast<uintptr_t>(gpu) + offset, 64, &failure);
                ASSERT_NE(device, nullptr) << failure.cause;
                ASSERT_EQ(device->kind, MemoryKind::device);
                if (i % 50 == t) { // as if it had been unmapped and mapped again
                    UnmapLog::instance().append(host, kPage);
                }
                Cache::release(device);
                Cache::release(region);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    release(gpu);
    unmap(memory, kLength);
}

// ---- GpuDirect, in every combination of what the HCA offers
struct Offer {
    const char* softhca_gpu_direct;
    Method expected;
    const char* words_in_report;
};

class GpuDirectTest : public testing::TestWithParam<Offer> {};

// The emulated HCA reads its variables once, so each combination has a process of its own.
TEST_P(GpuDirectTest, finds_what_works_and_says_why_not)
{
    setenv("SOFTHCA_GPU_DIRECT", GetParam().softhca_gpu_direct, 1);
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    if (fork() == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "mem_test", "--report", nullptr);
        _exit(127);
    }
    close(pipe_fds[1]);
    std::string report;
    char buffer[512];
    for (ssize_t n; (n = read(pipe_fds[0], buffer, sizeof(buffer))) > 0;) {
        report.append(buffer, static_cast<size_t>(n));
    }
    close(pipe_fds[0]);
    EXPECT_NE(report.find(std::string("method ") + to_string(GetParam().expected)),
              std::string::npos)
        << report;
    EXPECT_NE(report.find(GetParam().words_in_report), std::string::npos) << report;
    if (GetParam().expected != Method::none) {
        EXPECT_NE(report.find("surplus registered"), std::string::npos) << report;
    }
}

INSTANTIATE_TEST_SUITE_P(Offers, GpuDirectTest,
                         testing::Values(Offer{"dmabuf,peermem", Method::dmabuf, "by dmabuf"},
                                         Offer{"dmabuf", Method::dmabuf, "by dmabuf"},
                                         Offer{"peermem", Method::peermem,
                                               "Operation not supported"},
                                         Offer{"none", Method::none, "nvidia-peermem"}));

int report()
{
    verbs::Device device("softhca0");
    verbs::ProtectionDomain pd(ibv_alloc_pd(device.context()));
    GpuDirect gpu_direct(device, pd.get());
    for (const std::string& line : gpu_direct.report()) {
        std::printf("%s\n", line.c_str());
    }
    std::printf("method %s\n", to_string(gpu_direct.method(0)));

    // UCX 1.16 asks for whole units of 16 bytes, more than this allocation has.
    const cuda::Driver& driver = *cuda::driver();
    cuda::PrimaryContext context(driver, 0);
    void* memory = nullptr;
    cuda::allocate(driver, cuda::MemoryKind::device, context.handle(), 100, &memory);
    Cache cache(device, pd.get(), true);
    Failure failure;
    for (int i = 0; i < 2; ++i) {
        if (Region* region = cache.acquire(reinterpret_cast<uintptr_t>(memory), 112, &failure)) {
            Cache::release(region);
        }
    }
    std::printf("surplus %s\n", cache.registrations() == 1 ? "registered" : failure.cause.c_str());
    return 0;
}

} // namespace
} // namespace gdr::mem

int main(int argc, char** argv)
{
    const char* build = std::getenv("top_builddir");
    setenv("LD_LIBRARY_PATH",
           (std::string(build == nullptr ? "." : build) + "/src/emu/softcuda/.libs").c_str(), 1);
    run_on_softhca(argv);
    if (argc > 1 && std::string(argv[1]) == "--report") {
        return gdr::mem::report();
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
