// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/hooks, and what src/mem does when it is told that device memory is freed: on the emulated HCA
// and driver, whose functions are patched by the UCX that the program is linked with.
#include "../emu/preload.hpp"
#include "../tap.hpp"

#include "abi/memory_events.hpp"
#include "abi/patcher.hpp"
#include "cuda/recent.hpp"
#include "hooks/near_code.hpp"
#include "host/registration_cache.hpp"
#include "mem_fixture.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <ucm/api/ucm.h>
void ucm_event_dispatch(ucm_event_type_t type, ucm_event_t* event);
}

namespace gdr::mem {
namespace {

#ifdef __x86_64__
// ---- what is patched

// Begins as the functions of NVIDIA's driver do.
asm(".pushsection .text\n"
    ".balign 16\n"
    "patched_function:\n"
    "push %rbp\n"
    "mov %rsp, %rbp\n"
    "push %r12\n"
    "lea 1(%rdi), %eax\n"
    "pop %r12\n"
    "pop %rbp\n"
    "ret\n"
    ".popsection\n");
extern "C" int patched_function(int);

int (*original)(int);
int (*hooked_once)(int);

int add_ten(int number)
{
    return original(number) + 10;
}

int add_hundred(int number)
{
    return hooked_once(number) + 100;
}

template <class Function>
void* code_of(Function* function)
{
    return reinterpret_cast<void*>(function);
}

TEST(Patcher, hooks_what_is_hooked_already)
{
    EXPECT_EQ(patched_function(1), 2);
    EXPECT_EQ(abi::patch_function(code_of(patched_function), code_of(add_ten), "patched_function",
                                  reinterpret_cast<void**>(&original)),
              "");
    EXPECT_EQ(patched_function(1), 12);
    EXPECT_EQ(abi::patch_function(code_of(patched_function), code_of(add_hundred),
                                  "patched_function", reinterpret_cast<void**>(&hooked_once)),
              "");
    EXPECT_EQ(patched_function(1), 112);
    EXPECT_EQ(hooked_once(1), 12);
    EXPECT_EQ(original(1), 2);
}

// ---- code within reach of a jump

int add_one(int number)
{
    return number + 1;
}

TEST(NearCode, is_the_function_itself_where_that_is_near)
{
    EXPECT_EQ(hooks::code_near(code_of(add_ten), code_of(add_one)), code_of(add_one));
}

TEST(NearCode, jumps_to_what_is_far)
{
    constexpr size_t kFar = size_t{16} << 30;
    char* const all = static_cast<char*>(
        mmap(nullptr, kFar, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(all, MAP_FAILED);
    char* const middle = all + kFar / 2;
    munmap(middle - (8 << 20), 16 << 20); // the only room
    for (int i = 0; i < 2; ++i) {
        void* const near = hooks::code_near(middle, code_of(add_one));
        ASSERT_NE(near, nullptr);
        EXPECT_LT(std::llabs(static_cast<char*>(near) - middle), 2LL << 30);
        EXPECT_EQ(reinterpret_cast<int (*)(int)>(near)(41), 42);
    }
    munmap(all, kFar);
}
#endif

// ---- what is told

// As UCX's own cache hears of it.
std::vector<std::pair<uintptr_t, size_t>> freed;

void on_free(ucm_event_type_t, ucm_event_t* event, void*)
{
    freed.emplace_back(reinterpret_cast<uintptr_t>(event->mem_type.address), event->mem_type.size);
}

constexpr size_t kUnit = 2 << 20; // of mappings

class FreedTest : public GpuCacheTest {
  protected:
    void SetUp() override
    {
        ASSERT_NO_FATAL_FAILURE(GpuCacheTest::SetUp());
        cache_.emplace(*device_, pd_.get(), true, true);
        bind(context_->handle());
    }
    void TearDown() override { bind(nullptr); }

    static void bind(CUcontext context)
    {
        ASSERT_EQ(symbol<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), CUDA_SUCCESS);
    }

    static CUdeviceptr allocate(size_t length)
    {
        CUdeviceptr address = 0;
        EXPECT_EQ(symbol<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, length), CUDA_SUCCESS);
        return address;
    }
    static void release(CUdeviceptr address)
    {
        EXPECT_EQ(symbol<decltype(cuMemFree)>("cuMemFree_v2")(address), CUDA_SUCCESS);
    }

    static void map(CUdeviceptr address)
    {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemGenericAllocationHandle handle;
        CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        ASSERT_EQ(symbol<decltype(cuMemCreate)>("cuMemCreate")(&handle, kUnit, &properties, 0),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemMap)>("cuMemMap")(address, kUnit, 0, handle, 0),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, kUnit, &access, 1),
                  CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(cuMemRelease)>("cuMemRelease")(handle), CUDA_SUCCESS);
    }
    static void unmap(CUdeviceptr address)
    {
        ASSERT_EQ(symbol<decltype(cuMemUnmap)>("cuMemUnmap")(address, kUnit), CUDA_SUCCESS);
    }
    static CUdeviceptr reserve(size_t length)
    {
        CUdeviceptr address = 0;
        EXPECT_EQ(
            symbol<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, length, 0, 0, 0),
            CUDA_SUCCESS);
        return address;
    }

    // With a reference, as UCP's cache holds one.
    Region* acquire(uintptr_t address, size_t length)
    {
        Region* region = cache_->acquire(address, length, Access::remote, &failure_);
        EXPECT_NE(region, nullptr) << failure_.cause;
        return region;
    }
};

TEST_F(FreedTest, registrations_end_before_their_memory)
{
    const CUdeviceptr memory = allocate(1 << 20);
    const CUdeviceptr other = allocate(1 << 20);
    Region* unused = acquire(memory, 1);
    Region* held = acquire(other, 1);
    Region* living = acquire(allocate(4096), 1);
    Cache::release(unused);
    release(memory);
    EXPECT_EQ(unused->mr, nullptr);
    EXPECT_NE(held->mr, nullptr);
    release(other);
    EXPECT_EQ(held->mr, nullptr) << "whoever holds it";
    Cache::release(held);
    EXPECT_NE(living->mr, nullptr);
    Cache::release(living);
}

// In stream order: the call comes before what the stream has still to do with the memory, such as a
// transfer.
TEST_F(FreedTest, memory_of_a_pool_is_not_free_when_the_call_returns)
{
    for (const char* name : {"cuMemFreeAsync", "cuMemFreeAsync_ptsz"}) {
        CUdeviceptr memory = 0;
        ASSERT_EQ(symbol<decltype(cuMemAllocAsync)>("cuMemAllocAsync")(&memory, 1 << 20, nullptr),
                  CUDA_SUCCESS);
        Region* region = acquire(memory, 1);
        EXPECT_TRUE(region->changes_unseen);
        ASSERT_EQ(symbol<decltype(cuMemFreeAsync)>(name)(memory, nullptr), CUDA_SUCCESS);
        EXPECT_NE(region->mr, nullptr) << name;
        Cache::release(region);
    }
}

TEST_F(FreedTest, a_registration_of_several_mappings_ends_with_the_last)
{
    const CUdeviceptr range = reserve(3 * kUnit);
    for (size_t i = 0; i < 3; ++i) {
        map(range + i * kUnit);
    }
    Region* all = acquire(range, 3 * kUnit);
    unmap(range + 2 * kUnit);
    EXPECT_NE(all->mr, nullptr) << "the HCA may be amid the rest";
    Region* rest = acquire(range, 2 * kUnit);
    EXPECT_NE(rest, all);
    unmap(range);
    EXPECT_NE(all->mr, nullptr);
    unmap(range + kUnit);
    EXPECT_EQ(all->mr, nullptr);
    EXPECT_EQ(rest->mr, nullptr);
    Cache::release(all);
    Cache::release(rest);
}

TEST_F(FreedTest, a_registration_of_several_mappings_that_nobody_holds_ends_with_the_first)
{
    const CUdeviceptr range = reserve(2 * kUnit);
    map(range);
    map(range + kUnit);
    Region* all = acquire(range, 2 * kUnit);
    Cache::release(all);
    unmap(range);
    EXPECT_EQ(all->mr, nullptr);
    unmap(range + kUnit);
}

TEST_F(FreedTest, memory_goes_with_its_context)
{
    CUcontext context = nullptr;
    ASSERT_EQ((symbol<CUresult(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0, 0)),
              CUDA_SUCCESS);
    Region* region = acquire(allocate(1 << 20), 1);
    ASSERT_EQ(symbol<decltype(cuCtxDestroy)>("cuCtxDestroy_v2")(context), CUDA_SUCCESS);
    EXPECT_EQ(region->mr, nullptr);
    Cache::release(region);
}

TEST_F(FreedTest, ucx_hears_of_it)
{
    ASSERT_EQ(ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE, 0, on_free, nullptr), UCS_OK);
    const CUdeviceptr memory = allocate(300000);
    Cache::release(acquire(memory + 1000, 1));
    freed.clear();
    release(memory);
    ucm_unset_event_handler(UCM_EVENT_MEM_TYPE_FREE, on_free, nullptr);
    ASSERT_FALSE(freed.empty());
    EXPECT_EQ(freed.front(), (std::pair<uintptr_t, size_t>(memory, 300000)));
}

// The second question comes at once, and would have the answer of the first.
TEST_F(FreedTest, the_driver_is_asked_each_time_while_memory_is_freed)
{
    static const cuda::Driver* driver;
    static CUdeviceptr other;
    static uint64_t id;
    static unsigned questions, asked;
    static cuda::Driver counting;
    driver = cuda::driver();
    counting = *driver;
    counting.cuPointerGetAttributes = [](unsigned count, CUpointer_attribute* attributes,
                                         void** values, CUdeviceptr address) {
        ++questions;
        return driver->cuPointerGetAttributes(count, attributes, values, address);
    };
    other = allocate(1000);
    const auto* const address = reinterpret_cast<const void*>(other);
    id = cuda::finished(counting, address).buffer_id;
    const auto on_free = [](ucm_event_type_t, ucm_event_t*, void*) {
        const auto* const there = reinterpret_cast<const void*>(other);
        asked = 0;
        for (int i = 0; i < 100; ++i) {
            const unsigned before = questions;
            EXPECT_TRUE(cuda::still_finished(counting, there, id));
            asked += questions - before;
        }
    };
    Cache::release(acquire(allocate(1000), 1)); // the hooks are there
    const CUdeviceptr memory = allocate(1000);
    ASSERT_EQ(ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE, 0, on_free, nullptr), UCS_OK);
    release(memory);
    ucm_unset_event_handler(UCM_EVENT_MEM_TYPE_FREE, on_free, nullptr);
    EXPECT_EQ(asked, 100u);
    release(other);
}

// As by a UCX that was built with CUDA.
TEST_F(FreedTest, ucx_tells_of_it)
{
    static unsigned told = 0;
    abi::watch_frees([](void*, size_t length) { told += length == 4096; });
    ucm_event_t event{};
    event.mem_type.address = this;
    event.mem_type.size = 4096;
    event.mem_type.mem_type = UCS_MEMORY_TYPE_CUDA;
    ucm_event_dispatch(UCM_EVENT_MEM_TYPE_FREE, &event);
    EXPECT_EQ(told, 1u);
    host::registration_cache().end_registrations(this, 4096);
    EXPECT_EQ(told, 1u) << "what we tell is not heard";
}

TEST_F(FreedTest, what_is_not_there_fails_as_without_hooks)
{
    Cache::release(acquire(allocate(1), 1));
    EXPECT_EQ(symbol<decltype(cuMemFree)>("cuMemFree_v2")(4096), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(symbol<decltype(cuMemFree)>("cuMemFree_v2")(0), CUDA_SUCCESS);
    EXPECT_EQ(symbol<decltype(cuMemUnmap)>("cuMemUnmap")(kUnit, kUnit), CUDA_ERROR_INVALID_VALUE);
}

// A registrar whose own calls free, as the test of a GPU does and gdrcopy may.
class FreeingRegistrar final : public Registrar {
  public:
    explicit FreeingRegistrar(std::unique_ptr<Registrar> registrar)
        : registrar_(std::move(registrar))
    {
    }

    Target describe(uintptr_t address, size_t length, Access access) override
    {
        free_some();
        return registrar_->describe(address, length, access);
    }
    Registration register_memory(Target& target, Failure* failure) override
    {
        free_some();
        return registrar_->register_memory(target, failure);
    }
    const GpuDirect* gpu_direct() const override { return registrar_->gpu_direct(); }

  private:
    static void free_some()
    {
        CUdeviceptr memory = 0;
        symbol<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, 1);
        symbol<decltype(cuMemFree)>("cuMemFree_v2")(memory);
    }

    std::unique_ptr<Registrar> registrar_;
};

TEST_F(FreedTest, a_cache_may_free_amid_its_work)
{
    cache_.emplace(
        std::make_unique<FreeingRegistrar>(std::make_unique<HcaRegistrar>(*device_, pd_.get())),
        true, true);
    for (int i = 0; i < 3; ++i) {
        const CUdeviceptr memory = allocate(1 << 20);
        Region* region = acquire(memory, 1);
        release(memory);
        EXPECT_EQ(region->mr, nullptr);
        Cache::release(region);
    }
}

TEST_F(FreedTest, many_threads)
{
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            bind(context_->handle());
            for (int round = 0; round < 300; ++round) {
                const CUdeviceptr memory = allocate(1 << 16);
                Failure failure;
                Region* region = cache_->acquire(memory, 1 << 16, Access::remote, &failure);
                if (round % 2 == 0) {
                    Cache::release(region);
                    release(memory);
                    continue;
                }
                release(memory);
                wrong += region->mr != nullptr;
                Cache::release(region);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0);
}

// CUDA does not work there, but says so; a lock that another thread held is never released.
TEST_F(FreedTest, a_forked_child_is_not_stopped)
{
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "a child of several threads may hang in the thread sanitizer";
#endif
    const CUdeviceptr memory = allocate(1);
    Cache::release(acquire(memory, 1));
    std::atomic<bool> over{false};
    std::thread other([&] {
        bind(context_->handle());
        while (!over) {
            const CUdeviceptr own = allocate(1);
            Cache::release(acquire(own, 1));
            release(own);
        }
    });
    for (int i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(symbol<decltype(cuMemFree)>("cuMemFree_v2")(memory) == CUDA_ERROR_NOT_INITIALIZED
                      ? 0
                      : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    over = true;
    other.join();
}

} // namespace
} // namespace gdr::mem

int main(int argc, char** argv)
{
    find_softcuda();
    run_on_emulated_hca(argv);
    return run_tests(argc, argv);
}
