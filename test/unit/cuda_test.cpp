// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/cuda, on the driver that LD_LIBRARY_PATH or the system gives: the emulated one, or a real
// GPU's.
#include "../tap.hpp"
#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/dmabuf.hpp"
#include "cuda/driver.hpp"
#include "cuda/pointer.hpp"
#include "cuda/recent.hpp"
#include "cuda/relaxed_capture.hpp"
#include "some_gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gdr::cuda;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace {

// What is needed for the tests alone, from the same library.
template <typename Function>
Function symbol(const char* name)
{
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    auto function = library != nullptr ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
    EXPECT_NE(function, nullptr) << name;
    return function;
}

bool emulated()
{
    return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "softcuda_calls") != nullptr;
}

class Cuda : public testing::Test {
  protected:
    void SetUp() override
    {
        driver_ = driver();
        if (driver_ == nullptr) {
            GTEST_SKIP() << "no CUDA driver: " << unavailable_reason();
        }
        leave_all();
    }
    void TearDown() override
    {
        if (driver_ != nullptr) {
            leave_all();
        }
    }

    void leave_all()
    {
        CUcontext ignored;
        while (driver_->cuCtxPopCurrent(&ignored) == CUDA_SUCCESS) {
        }
    }
    CUcontext current() const
    {
        CUcontext context = nullptr;
        EXPECT_EQ(driver_->cuCtxGetCurrent(&context), CUDA_SUCCESS);
        return context;
    }
    // A context that is not a primary one, current after the call.
    CUcontext create_context(CUdevice device)
    {
        using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
        CUcontext context = nullptr;
        EXPECT_EQ(symbol<Create>("cuCtxCreate_v2")(&context, 0, device), CUDA_SUCCESS);
        return context;
    }
    void destroy_context(CUcontext context)
    {
        EXPECT_EQ(symbol<CUresult (*)(CUcontext)>("cuCtxDestroy_v2")(context), CUDA_SUCCESS);
    }
    int device_count() const
    {
        int count = 0;
        EXPECT_EQ(driver_->cuDeviceGetCount(&count), CUDA_SUCCESS);
        return count;
    }
    void* must_allocate(MemoryKind kind, CUcontext context, size_t length)
    {
        void* memory = nullptr;
        EXPECT_EQ(allocate(*driver_, kind, context, length, &memory), CUDA_SUCCESS);
        return memory;
    }

    const Driver* driver_ = nullptr;
};

char* advance(void* pointer, size_t bytes)
{
    return static_cast<char*>(pointer) + bytes;
}

// What driver() comes to in a new process with another environment; see main().
std::string outcome(const std::string& environment)
{
    std::string command =
        "env " + environment + " /proc/" + std::to_string(getpid()) + "/exe --print-driver";
    FILE* output = popen(command.c_str(), "r");
    char line[512] = "";
    EXPECT_NE(fgets(line, sizeof(line), output), nullptr) << command;
    EXPECT_EQ(pclose(output), 0) << command;
    std::string text = line;
    return text.substr(0, text.find('\n'));
}

std::string system_driver()
{
    return outcome("-u LD_LIBRARY_PATH");
}

} // namespace

// ---- loading: the first answer in a process is kept, so each of these takes a process of its own

TEST(CudaDriver, NamesTheMissingLibrary)
{
    if (std::string reason = system_driver(); reason == "found") {
        GTEST_SKIP() << "the system has a CUDA driver";
    } else {
        EXPECT_THAT(reason, HasSubstr("libcuda.so.1"));
    }
}

TEST(CudaDriver, NamesTheMissingSymbol)
{
    // The C library under the driver's name.
    void* libc = dlopen("libc.so.6", RTLD_LAZY);
    ASSERT_NE(libc, nullptr);
    Dl_info info;
    ASSERT_NE(dladdr(dlsym(libc, "strfry"), &info), 0);
    namespace fs = std::filesystem;
    fs::path directory = fs::temp_directory_path() / ("gdr-cuda-" + std::to_string(getpid()));
    fs::create_directory(directory);
    fs::create_symlink(info.dli_fname, directory / "libcuda.so.1");
    std::string reason = outcome("LD_LIBRARY_PATH=" + directory.string());
    fs::remove_all(directory);
    EXPECT_THAT(reason, MatchesRegex("libcuda.so.1 has no cu[A-Z].*"));
}

TEST(CudaDriver, NamesTheErrorOfInit)
{
    if (driver() == nullptr) {
        GTEST_SKIP() << "no CUDA driver: " << unavailable_reason();
    }
    // The first is for the emulated driver, the second for a real one.
    EXPECT_THAT(outcome("SOFTCUDA_DEVICES=0 CUDA_VISIBLE_DEVICES="),
                MatchesRegex("cuInit: CUDA_ERROR_NO_DEVICE \\(.+\\)"));
}

TEST(CudaDriver, IsUnavailableInAForkedChild)
{
    if (driver() == nullptr) {
        GTEST_SKIP() << "no CUDA driver: " << unavailable_reason();
    }
    const Driver* parents = driver();
    pid_t child = fork();
    if (child == 0) {
        const char* name = nullptr; // which the driver itself would tell
        bool as_expected =
            driver() == nullptr && initialised_driver() == nullptr && in_forked_child() &&
            unavailable_reason().find("fork") != std::string::npos &&
            parents->cuGetErrorName(CUDA_SUCCESS, &name) == CUDA_ERROR_NOT_INITIALIZED;
        _exit(as_expected ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_NE(driver(), nullptr);
    EXPECT_EQ(unavailable_reason(), "");
}

void* of_a_gpu = nullptr;

// The driver is gone when this is called: it was registered first.
void classify_at_the_end()
{
    static int ordinary;
    if (classify(*driver(), &ordinary).kind != MemoryKind::host) {
        _exit(1);
    }
    try {
        classify(*driver(), of_a_gpu);
        _exit(2);
    } catch (const Error& error) {
        _exit(error.result() == CUDA_ERROR_DEINITIALIZED ? 0 : 3);
    }
}

TEST(CudaDriver, LeavesHostMemoryAtTheEndOfTheProcess)
{
    if (!emulated()) {
        GTEST_SKIP() << "a real driver may go later";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            std::atexit(classify_at_the_end);
            PrimaryContext context(*driver(), 0);
            allocate(*driver(), MemoryKind::device, context.handle(), 4096, &of_a_gpu);
            std::exit(4);
        },
        testing::ExitedWithCode(0), "");
}

TEST(CudaDriver, IsTheSameForAllThreads)
{
    if (driver() == nullptr) {
        GTEST_SKIP() << "no CUDA driver: " << unavailable_reason();
    }
    const Driver* seen = nullptr;
    std::thread([&] { seen = driver(); }).join();
    EXPECT_EQ(seen, driver());
    EXPECT_EQ(seen, initialised_driver());
}

TEST_F(Cuda, ErrorTexts)
{
    EXPECT_THAT(error_text(CUDA_ERROR_INVALID_VALUE),
                MatchesRegex("CUDA_ERROR_INVALID_VALUE \\(.+\\)"));
    EXPECT_EQ(error_text(static_cast<CUresult>(1001)), "CUresult 1001");
    EXPECT_NO_THROW(check(CUDA_SUCCESS, "cuInit"));
    try {
        check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.result(), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_THAT(error.what(), HasSubstr("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"));
    }
}

TEST_F(Cuda, Devices)
{
    std::vector<Device> all = devices(*driver_);
    ASSERT_EQ(all.size(), static_cast<size_t>(device_count()));
    for (const Device& device : all) {
        EXPECT_NE(device.name, "");
        EXPECT_THAT(device.pci_bus_id,
                    MatchesRegex("[0-9a-f]+:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f].[0-7]"));
        EXPECT_THAT(device.uuid, MatchesRegex("GPU-[0-9a-f-]+"));
        EXPECT_EQ(device.uuid.size(), 4u + 36u);
        EXPECT_GT(device.memory, 0u);
        for (const Device& other : all) {
            if (&other != &device) {
                EXPECT_NE(other.uuid, device.uuid);
                EXPECT_NE(other.pci_bus_id, device.pci_bus_id);
            }
        }
    }
    if (emulated()) { // the values of an H200
        EXPECT_TRUE(all[0].dmabuf);
        EXPECT_TRUE(all[0].gpudirect_rdma);
        EXPECT_TRUE(all[0].flushes_rdma_writes);
        EXPECT_TRUE(all[0].sees_rdma_writes);
    }
}

// ---- pointers

// A driver that counts the questions it is asked about pointers.
unsigned questions;
decltype(Driver::cuPointerGetAttributes) answer;

Driver counting(const Driver& driver)
{
    Driver counted = driver;
    questions = 0;
    answer = driver.cuPointerGetAttributes;
    counted.cuPointerGetAttributes = [](unsigned count, CUpointer_attribute* attributes,
                                        void** values, CUdeviceptr address) {
        ++questions;
        return answer(count, attributes, values, address);
    };
    return counted;
}

TEST_F(Cuda, AsksTheDriverOnceAboutMemoryOfAMoment)
{
    const Driver driver = counting(*driver_);
    PrimaryContext context(driver, 0);
    void* const memory = must_allocate(MemoryKind::device, context.handle(), 1000);
    const Pointer known = finished(driver, memory);
    EXPECT_EQ(known.base, reinterpret_cast<uintptr_t>(memory));
    EXPECT_TRUE(classify(driver, memory).sync_memops);
    const auto again = [&] {
        const unsigned before = questions;
        EXPECT_EQ(finished(driver, advance(memory, 999)).buffer_id, known.buffer_id);
        EXPECT_TRUE(still_finished(driver, memory, known.buffer_id));
        EXPECT_TRUE(still_there(driver, memory, known.buffer_id));
        return questions - before;
    };
    // As soon as three questions come without a pause, which a machine that is busy may make.
    unsigned asked = 3;
    for (int tries = 0; tries < 1000 && asked > 1; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        asked = again();
    }
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(asked, 1u);
#endif
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(again(), 1u);
    EXPECT_FALSE(still_finished(driver, memory, known.buffer_id + 1));
    EXPECT_FALSE(still_there(driver, memory, known.buffer_id + 1));
    EXPECT_EQ(release(driver, memory), CUDA_SUCCESS);
}

TEST_F(Cuda, AsksTheDriverEachTimeIfAMomentIsNotTrusted)
{
    const Driver driver = counting(*driver_);
    PrimaryContext context(driver, 0);
    void* const memory = must_allocate(MemoryKind::device, context.handle(), 1000);
    const Pointer known = finished(driver, memory);
    trust_moments(false);
    for (unsigned i = 0; i < 1000; ++i) {
        const unsigned before = questions;
        EXPECT_TRUE(still_finished(driver, memory, known.buffer_id));
        EXPECT_TRUE(still_there(driver, memory, known.buffer_id));
        ASSERT_EQ(questions - before, 2u) << i;
    }
    trust_moments(true);
    EXPECT_EQ(release(driver, memory), CUDA_SUCCESS);
}

TEST_F(Cuda, NoAnswerHoldsWhileMemoryIsFreedNorOneFromBefore)
{
    const Driver driver = counting(*driver_);
    PrimaryContext context(driver, 0);
    void* const memory = must_allocate(MemoryKind::device, context.handle(), 1000);
    const Pointer known = finished(driver, memory);
    const auto asked = [&] {
        const unsigned before = questions;
        EXPECT_TRUE(still_finished(driver, memory, known.buffer_id));
        return questions - before;
    };
    for (int i = 0; i < 1000; ++i) {
        {
            const Freeing freeing;
            asked();
            ASSERT_EQ(asked(), 1u) << i;
            const Freeing by_another_thread;
            ASSERT_EQ(asked(), 1u) << i;
        }
        ASSERT_EQ(asked(), 1u) << i;
    }
    EXPECT_EQ(release(driver, memory), CUDA_SUCCESS);
}

// However soon.
TEST_F(Cuda, SeesOtherMemoryAtTheSameAddress)
{
    const Driver& driver = *driver_;
    PrimaryContext context(driver, 0);
    const CurrentContext current(driver, context.handle());
    void* memory = must_allocate(MemoryKind::device, context.handle(), 1000);
    Pointer before = finished(driver, memory);
    for (int i = 0; i < 10000; ++i) {
        ASSERT_TRUE(still_finished(driver, memory, before.buffer_id));
        ASSERT_EQ(driver.cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), CUDA_SUCCESS);
        CUdeviceptr address = 0;
        ASSERT_EQ(driver.cuMemAlloc(&address, 1000), CUDA_SUCCESS);
        memory = reinterpret_cast<void*>(address);
        const Pointer now = finished(driver, memory);
        ASSERT_NE(now.buffer_id, before.buffer_id) << i;
        ASSERT_FALSE(still_there(driver, memory, before.buffer_id)) << i;
        before = now;
    }
    EXPECT_EQ(release(driver, memory), CUDA_SUCCESS);
}

TEST_F(Cuda, ClassifiesWithoutACurrentContext)
{
    PrimaryContext context(*driver_, 0);
    void* device = must_allocate(MemoryKind::device, context.handle(), 100000);
    void* managed = must_allocate(MemoryKind::managed, context.handle(), 100000);
    ASSERT_EQ(current(), nullptr);

    Pointer inside = classify(*driver_, advance(device, 70000));
    EXPECT_EQ(inside.kind, MemoryKind::device);
    EXPECT_FALSE(inside.pinned);
    EXPECT_EQ(inside.device, 0);
    EXPECT_EQ(inside.base, reinterpret_cast<uintptr_t>(device));
    EXPECT_EQ(inside.length, 100000u);
    EXPECT_EQ(inside.context, context.handle());
    EXPECT_NE(inside.buffer_id, 0u);
    EXPECT_EQ(inside.buffer_id, buffer_id(*driver_, device));

    Pointer unified = classify(*driver_, managed);
    EXPECT_EQ(unified.kind, MemoryKind::managed);
    EXPECT_EQ(unified.base, reinterpret_cast<uintptr_t>(managed));
    EXPECT_EQ(unified.length, 100000u);
    EXPECT_NE(unified.buffer_id, inside.buffer_id);

    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(release(*driver_, device), CUDA_SUCCESS);
    EXPECT_EQ(release(*driver_, managed), CUDA_SUCCESS);
    EXPECT_EQ(current(), nullptr);
}

TEST_F(Cuda, OrdinaryMemoryIsHost)
{
    std::vector<char> heap(4096);
    int on_stack = 0;
    for (const void* address :
         {static_cast<const void*>(heap.data()), static_cast<const void*>(&on_stack),
          static_cast<const void*>(nullptr)}) {
        Pointer pointer = classify(*driver_, address);
        EXPECT_EQ(pointer.kind, MemoryKind::host);
        EXPECT_FALSE(pointer.pinned);
        EXPECT_EQ(pointer.device, -1);
        EXPECT_EQ(pointer.buffer_id, 0u);
        EXPECT_EQ(pointer.length, 0u);
        EXPECT_EQ(buffer_id(*driver_, address), 0u);
    }
}

TEST_F(Cuda, PinnedMemoryIsHostThatCudaKnows)
{
    PrimaryContext context(*driver_, 0);
    CurrentContext current(*driver_, context.handle());
    constexpr size_t kLength = 65536;
    void* memory =
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_EQ(driver_->cuMemHostRegister(memory, kLength, 0), CUDA_SUCCESS);
    Pointer pointer = classify(*driver_, advance(memory, 1000));
    EXPECT_EQ(pointer.kind, MemoryKind::host);
    EXPECT_TRUE(pointer.pinned);
    EXPECT_EQ(pointer.length, kLength);
    EXPECT_EQ(driver_->cuMemHostUnregister(memory), CUDA_SUCCESS);
    EXPECT_FALSE(classify(*driver_, memory).pinned);
    munmap(memory, kLength);
}

TEST_F(Cuda, BufferIdsAreNotUsedAgain)
{
    PrimaryContext context(*driver_, 0);
    std::vector<uint64_t> ids;
    int reused = 0;
    void* previous = nullptr;
    for (int i = 0; i < 20; ++i) {
        void* memory = must_allocate(MemoryKind::device, context.handle(), size_t{4} << 20);
        reused += memory == previous;
        previous = memory;
        ids.push_back(buffer_id(*driver_, memory));
        ASSERT_EQ(release(*driver_, memory), CUDA_SUCCESS);
        EXPECT_EQ(buffer_id(*driver_, memory), 0u);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
    EXPECT_GT(reused, 0) << "no address was used twice: the test has shown nothing";
}

TEST_F(Cuda, PoolMemoryHasNoContextAndIsReleased)
{
    PrimaryContext context(*driver_, 0);
    CUdeviceptr memory = 0;
    {
        CurrentContext current(*driver_, context.handle());
        using Allocate = CUresult (*)(CUdeviceptr*, size_t, CUstream);
        ASSERT_EQ(symbol<Allocate>("cuMemAllocAsync")(&memory, 100000, nullptr), CUDA_SUCCESS);
        ASSERT_EQ(driver_->cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    }
    auto* address = reinterpret_cast<void*>(memory);
    Pointer pointer = classify(*driver_, address);
    EXPECT_EQ(pointer.kind, MemoryKind::device);
    EXPECT_EQ(pointer.device, 0);
    EXPECT_EQ(pointer.context, nullptr);
    EXPECT_NE(pointer.buffer_id, 0u);
    {
        CurrentContext current_for(*driver_, pointer);
        EXPECT_EQ(current(), context.handle());
    }
    DmabufExport exported = export_dmabuf(*driver_, advance(address, 50000), 100);
    EXPECT_TRUE(exported.fd);
    // With what the pool has mapped before it: where nothing is, as on a GPU, from its own address.
    EXPECT_EQ(exported.base, mapping_base(*driver_, address));
    EXPECT_LE(exported.base, memory);
    EXPECT_GE(exported.base + exported.length, memory + 50100);
    EXPECT_EQ(release(*driver_, address), CUDA_SUCCESS);
    EXPECT_EQ(current(), nullptr);
}

TEST_F(Cuda, MemoryOfCuMemCreateIsKnownByItsMapping)
{
    constexpr size_t kGranule = size_t{2} << 20;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    auto create = symbol<decltype(&cuMemCreate)>("cuMemCreate");
    auto map = symbol<decltype(&cuMemMap)>("cuMemMap");
    CUdeviceptr range = 0; // its first granule stays empty
    ASSERT_EQ(symbol<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&range, 4 * kGranule, 0,
                                                                            0, 0),
              CUDA_SUCCESS);
    for (int i : {1, 2}) {
        CUmemGenericAllocationHandle handle = 0;
        ASSERT_EQ(create(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
        ASSERT_EQ(map(range + i * kGranule, kGranule, 0, handle, 0), CUDA_SUCCESS);
        ASSERT_EQ(symbol<decltype(&cuMemRelease)>("cuMemRelease")(handle), CUDA_SUCCESS);
    }
    ASSERT_EQ(symbol<decltype(&cuMemSetAccess)>("cuMemSetAccess")(range + kGranule, 2 * kGranule,
                                                                  &access, 1),
              CUDA_SUCCESS);
    ASSERT_EQ(current(), nullptr);

    auto* second = reinterpret_cast<void*>(range + 2 * kGranule);
    Pointer pointer = classify(*driver_, advance(second, 12345));
    EXPECT_EQ(pointer.kind, MemoryKind::device);
    EXPECT_EQ(pointer.context, nullptr);
    EXPECT_EQ(pointer.base, range + 2 * kGranule);
    EXPECT_EQ(pointer.length, kGranule);
    EXPECT_NE(pointer.buffer_id, buffer_id(*driver_, advance(second, -kGranule)));
    EXPECT_EQ(classify(*driver_, reinterpret_cast<void*>(range)).kind, MemoryKind::host);
    // One export may run over both.
    EXPECT_EQ(export_dmabuf(*driver_, advance(second, -4096), 8192).result, CUDA_SUCCESS);

    ASSERT_EQ(symbol<decltype(&cuMemUnmap)>("cuMemUnmap")(range + kGranule, 2 * kGranule),
              CUDA_SUCCESS);
    ASSERT_EQ(symbol<decltype(&cuMemAddressFree)>("cuMemAddressFree")(range, 4 * kGranule),
              CUDA_SUCCESS);
}

// ---- contexts

TEST_F(Cuda, MakesAContextCurrentAndRestoresWhatWas)
{
    PrimaryContext primary(*driver_, 0);
    { // from none
        CurrentContext scope(*driver_, primary.handle());
        EXPECT_EQ(current(), primary.handle());
        { // already current
            CurrentContext again(*driver_, primary.handle());
            EXPECT_EQ(current(), primary.handle());
        }
        EXPECT_EQ(current(), primary.handle());
    }
    EXPECT_EQ(current(), nullptr);

    CUcontext own = create_context(0);
    ASSERT_EQ(current(), own);
    ASSERT_NE(own, primary.handle());
    { // from a non-primary one on the same device
        CurrentContext scope(*driver_, primary.handle());
        EXPECT_EQ(current(), primary.handle());
    }
    EXPECT_EQ(current(), own);
    destroy_context(own);
}

TEST_F(Cuda, MemoryOfAContextThatIsNotPrimary)
{
    CUcontext own = create_context(0);
    void* memory = must_allocate(MemoryKind::device, nullptr, 8192);
    leave_all();
    Pointer pointer = classify(*driver_, memory);
    EXPECT_EQ(pointer.context, own);
    {
        CurrentContext scope(*driver_, pointer);
        EXPECT_EQ(current(), own);
    }
    EXPECT_EQ(current(), nullptr);
    PrimaryContext primary(*driver_, 0);
    {
        CurrentContext scope(*driver_, primary.handle());
        EXPECT_EQ(release(*driver_, memory), CUDA_SUCCESS); // in another context's scope
        EXPECT_EQ(current(), primary.handle());
    }
    destroy_context(own);
}

TEST_F(Cuda, MemoryOfAnotherDevice)
{
    if (device_count() < 2) {
        GTEST_SKIP() << "one CUDA device only";
    }
    PrimaryContext first(*driver_, 0), second(*driver_, 1);
    void* memory = must_allocate(MemoryKind::device, second.handle(), 8192);
    CurrentContext scope(*driver_, first.handle());
    Pointer pointer = classify(*driver_, memory);
    EXPECT_EQ(pointer.device, 1);
    {
        CurrentContext inner(*driver_, pointer);
        EXPECT_EQ(current(), second.handle());
    }
    EXPECT_EQ(current(), first.handle());
    EXPECT_EQ(release(*driver_, memory), CUDA_SUCCESS);
    EXPECT_EQ(current(), first.handle());
}

TEST_F(Cuda, ADestroyedContextCannotBeMadeCurrent)
{
    if (!emulated()) {
        GTEST_SKIP() << "a real driver may have given the handle to another context";
    }
    CUcontext own = create_context(0);
    destroy_context(own);
    EXPECT_THROW(CurrentContext(*driver_, own), Error);
    EXPECT_EQ(current(), nullptr);
}

TEST_F(Cuda, HostMemoryNeedsNoContext)
{
    char byte = 0;
    CurrentContext scope(*driver_, classify(*driver_, &byte));
    EXPECT_EQ(current(), nullptr);
}

TEST_F(Cuda, PrimaryContextIsHeldWhileItIsNeeded)
{
    unsigned flags = 0;
    int before = -1, active = -1;
    ASSERT_EQ(driver_->cuDevicePrimaryCtxGetState(0, &flags, &before), CUDA_SUCCESS);
    {
        PrimaryContext context(*driver_, 0);
        ASSERT_EQ(driver_->cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
        EXPECT_EQ(active, 1);
    }
    ASSERT_EQ(driver_->cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, before);
    EXPECT_THROW(PrimaryContext(*driver_, 1000), Error);
}

// ---- allocation

TEST_F(Cuda, AllocationFailuresAreResults)
{
    void* memory = nullptr;
    EXPECT_EQ(allocate(*driver_, MemoryKind::device, nullptr, 4096, &memory),
              CUDA_ERROR_INVALID_CONTEXT);
    PrimaryContext context(*driver_, 0);
    EXPECT_EQ(allocate(*driver_, MemoryKind::device, context.handle(), size_t{1} << 46, &memory),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(memory, nullptr);
    std::vector<char> heap(4096);
    EXPECT_EQ(release(*driver_, heap.data()), CUDA_ERROR_INVALID_VALUE);
    memory = must_allocate(MemoryKind::device, context.handle(), 65536);
    EXPECT_EQ(release(*driver_, advance(memory, 4096)),
              CUDA_ERROR_INVALID_VALUE); // not its beginning
    EXPECT_EQ(release(*driver_, memory), CUDA_SUCCESS);
    EXPECT_EQ(release(*driver_, memory), CUDA_ERROR_INVALID_VALUE); // twice
}

// ---- dmabuf

TEST_F(Cuda, ExportsTheWholePagesOfARange)
{
    if (std::string reason = why_no_dmabuf(*driver_, 0); !reason.empty()) {
        GTEST_SKIP() << reason;
    }
    PrimaryContext context(*driver_, 0);
    void* memory = must_allocate(MemoryKind::device, context.handle(), 65536);
    void* small = must_allocate(MemoryKind::device, context.handle(), 100);
    ASSERT_EQ(current(), nullptr);
    auto base = reinterpret_cast<uintptr_t>(memory);

    DmabufExport part = export_dmabuf(*driver_, advance(memory, 5000), 4000);
    ASSERT_EQ(part.result, CUDA_SUCCESS);
    EXPECT_EQ(part.base, base + 4096);
    EXPECT_EQ(part.length, 8192u);
    EXPECT_EQ(lseek(part.fd.get(), 0, SEEK_END), 8192);

    DmabufExport page = export_dmabuf(*driver_, small, 100);
    ASSERT_EQ(page.result, CUDA_SUCCESS);
    EXPECT_EQ(page.base % 4096, 0u);
    EXPECT_LE(page.base, reinterpret_cast<uintptr_t>(small));
    EXPECT_EQ(page.length, 4096u);

    int closed = part.fd.get();
    part = {};
    EXPECT_EQ(fcntl(closed, F_GETFD), -1);
    EXPECT_EQ(release(*driver_, memory), CUDA_SUCCESS);
    EXPECT_EQ(release(*driver_, small), CUDA_SUCCESS);
}

TEST_F(Cuda, RefusesToExportWhatIsNotDeviceMemory)
{
    PrimaryContext context(*driver_, 0);
    void* managed = must_allocate(MemoryKind::managed, context.handle(), 65536);
    void* device = must_allocate(MemoryKind::device, context.handle(), 4096);
    std::vector<char> heap(65536);
    for (void* memory : {managed, static_cast<void*>(heap.data())}) {
        DmabufExport refused = export_dmabuf(*driver_, memory, 4096);
        EXPECT_FALSE(refused.fd);
        EXPECT_EQ(refused.result, CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_FALSE(export_dmabuf(*driver_, device, size_t{1} << 40).fd); // beyond the allocation
    EXPECT_EQ(release(*driver_, managed), CUDA_SUCCESS);
    EXPECT_EQ(release(*driver_, device), CUDA_SUCCESS);
}

// ---- captures

// A capture of another thread, in the mode that forbids every thread the most.
class Capture {
  public:
    explicit Capture(CUcontext context)
    {
        std::promise<void> begun;
        thread_ = std::thread([this, context, &begun] {
            symbol<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context);
            CUstream stream = nullptr;
            driver()->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
            EXPECT_EQ(symbol<CUresult (*)(CUstream, CUstreamCaptureMode)>(
                          "cuStreamBeginCapture_v2")(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                      CUDA_SUCCESS);
            begun.set_value();
            over_.get_future().wait();
            CUgraph graph = nullptr;
            result_ =
                symbol<CUresult (*)(CUstream, CUgraph*)>("cuStreamEndCapture")(stream, &graph);
            driver()->cuStreamDestroy(stream);
        });
        begun.get_future().wait();
    }
    CUresult end()
    {
        over_.set_value();
        thread_.join();
        return result_;
    }

  private:
    std::promise<void> over_;
    CUresult result_ = CUDA_SUCCESS;
    std::thread thread_;
};

CUstreamCaptureMode capture_mode()
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_EQ(driver()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    const CUstreamCaptureMode found = mode;
    EXPECT_EQ(driver()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    return found;
}

TEST_F(Cuda, LeavesTheCapturesOfOtherThreadsAlone)
{
    PrimaryContext context(*driver_, 0);
    void* memory = nullptr;
    CurrentContext current(*driver_, context.handle());
    CUstream stream = nullptr;
    CUevent event = nullptr;
    static char page[4096];

    Capture capture(context.handle());
    EXPECT_EQ(allocate(*driver_, MemoryKind::device, context.handle(), 4096, &memory),
              CUDA_SUCCESS);
    finish_memops(*driver_, classify(*driver_, memory));
    EXPECT_TRUE(classify(*driver_, memory).sync_memops);
    EXPECT_EQ(export_dmabuf(*driver_, memory, 4096).result, CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuMemHostRegister(page, sizeof(page), CU_MEMHOSTREGISTER_PORTABLE),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(memory),
                                     reinterpret_cast<CUdeviceptr>(page), sizeof(page), stream),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuMemHostUnregister(page), CUDA_SUCCESS);
    EXPECT_EQ(release(*driver_, memory), CUDA_SUCCESS);
    EXPECT_EQ(capture.end(), CUDA_SUCCESS);
    EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    driver_->cuEventDestroy(event);
    driver_->cuStreamDestroy(stream);
}

TEST_F(Cuda, RelaxesCaptureForAScopeAndRestoresWhatWas)
{
    CUstreamCaptureMode before = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    ASSERT_EQ(driver_->cuThreadExchangeStreamCaptureMode(&before), CUDA_SUCCESS);
    {
        RelaxedCapture outer(*driver_);
        {
            RelaxedCapture inner(*driver_);
            EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
        }
        EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
        std::thread([] { EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL); }).join();
    }
    EXPECT_EQ(capture_mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ASSERT_EQ(driver_->cuThreadExchangeStreamCaptureMode(&before), CUDA_SUCCESS);
}

TEST_F(Cuda, SaysWhyADriverCannotExport)
{
    Driver old = *driver_;
    old.cuMemGetHandleForAddressRange = nullptr;
    EXPECT_THAT(why_no_dmabuf(old, 0), HasSubstr("cuMemGetHandleForAddressRange"));
    std::vector<char> heap(4096);
    EXPECT_EQ(export_dmabuf(old, heap.data(), 1).result, CUDA_ERROR_NOT_SUPPORTED);

    Driver without = *driver_;
    without.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
        *value = 0;
        return CUDA_SUCCESS;
    };
    EXPECT_THAT(why_no_dmabuf(without, 0), HasSubstr("DMA_BUF_SUPPORTED is 0"));

    Driver refusing = *driver_;
    refusing.cuMemGetHandleForAddressRange = [](void*, CUdeviceptr, size_t, CUmemRangeHandleType,
                                                unsigned long long) {
        return CUDA_ERROR_NOT_PERMITTED;
    };
    EXPECT_THAT(why_no_dmabuf(refusing, 0),
                HasSubstr("cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_PERMITTED"));
}

int main(int argc, char** argv)
{
    run_on_some_gpu(argc, argv);
    return run_tests(argc, argv);
}
