// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: the order of operations in streams, events, and waiting for them.
#include "softcuda_fixture.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <unistd.h>

using namespace std::chrono_literals;

namespace {

class SoftcudaStream : public Softcuda {
  protected:
    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&gate_), 4096, 0));
        *gate_ = 0;
    }

    CUstream create(unsigned flags)
    {
        CUstream stream = nullptr;
        EXPECT_CUDA(cuStreamCreate(&stream, flags));
        return stream;
    }
    CUevent create_event(unsigned flags = CU_EVENT_DISABLE_TIMING)
    {
        CUevent event = nullptr;
        EXPECT_CUDA(cuEventCreate(&event, flags));
        return event;
    }
    CUevent record(CUstream stream)
    {
        CUevent event = create_event();
        EXPECT_CUDA(cuEventRecord(event, stream));
        return event;
    }

    // Operations issued to the stream from now on wait until open() is called.
    void close(CUstream stream)
    {
        *gate_ = 0;
        EXPECT_CUDA(cuStreamWaitValue64(stream, address_of(gate_), 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    void open() { std::atomic_ref(*gate_).store(1); }

    uint64_t* gate_ = nullptr;
};

constexpr auto kLongEnough = 20ms; // for what must not happen

} // namespace

TEST_F(SoftcudaStream, EventsAreNotReadyUntilTheStreamGetsThere)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = allocate(4096);
    ASSERT_CUDA(cuMemsetD8(memory, 1, 4096));
    close(stream);
    ASSERT_CUDA(cuMemsetD8Async(memory, 2, 4096, stream));
    CUevent event = record(stream);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(static_cast<char*>(softcuda_host_alias(pointer(memory), 1))[0], 1);
    open();
    ASSERT_CUDA(cuEventSynchronize(event));
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    EXPECT_EQ(static_cast<char*>(softcuda_host_alias(pointer(memory), 1))[0], 2);
    EXPECT_CUDA(cuEventDestroy(event));
    EXPECT_CUDA(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SoftcudaStream, ProgressNeedsNobodyToAsk)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    uint64_t* flag = gate_ + 1;
    *flag = 0;
    CUdeviceptr memory = allocate(1 << 20);
    ASSERT_CUDA(cuMemsetD8Async(memory, 3, 1 << 20, stream));
    ASSERT_CUDA(cuStreamWriteValue64(stream, address_of(flag), 77, 0));
    for (int i = 0; i < 5000 && std::atomic_ref(*flag).load() != 77; ++i) {
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(*flag, 77u);
    EXPECT_EQ(contents(memory, 1)[0], 3);
}

TEST_F(SoftcudaStream, OneStreamKeepsItsOrder)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    constexpr size_t kSize = 64 << 10;
    CUdeviceptr memory = allocate(kSize);
    void* host = nullptr;
    ASSERT_CUDA(cuMemHostAlloc(&host, kSize, 0));
    for (int round = 0; round < 200; ++round) {
        ASSERT_CUDA(cuMemsetD8Async(memory, static_cast<unsigned char>(round), kSize, stream));
        ASSERT_CUDA(cuMemcpyDtoHAsync(host, memory, kSize, stream));
        ASSERT_CUDA(cuMemsetD8Async(memory, 255, kSize, stream));
        ASSERT_CUDA(cuStreamSynchronize(stream));
        ASSERT_EQ(static_cast<unsigned char*>(host)[0], round);
        ASSERT_EQ(static_cast<unsigned char*>(host)[kSize - 1], round);
    }
}

TEST_F(SoftcudaStream, StreamsWaitForEachOthersEvents)
{
    CUstream first = create(CU_STREAM_NON_BLOCKING), second = create(CU_STREAM_NON_BLOCKING);
    close(first);
    CUevent event = record(first);
    ASSERT_CUDA(cuStreamWaitEvent(second, event, 0));
    CUevent after = record(second);
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuEventQuery(after), CUDA_ERROR_NOT_READY);
    open();
    EXPECT_CUDA(cuStreamSynchronize(second));
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    // An event that was never recorded holds nobody up.
    ASSERT_CUDA(cuStreamWaitEvent(second, create_event(), 0));
    EXPECT_CUDA(cuStreamSynchronize(second));
}

TEST_F(SoftcudaStream, LegacyStreamWaitsForBlockingStreamsAlone)
{
    CUstream blocking = create(CU_STREAM_DEFAULT), free = create(CU_STREAM_NON_BLOCKING);
    close(blocking);
    CUevent legacy = record(nullptr);
    CUevent independent = record(free);
    EXPECT_CUDA(cuEventSynchronize(independent));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuEventQuery(legacy), CUDA_ERROR_NOT_READY);
    open();
    EXPECT_CUDA(cuEventSynchronize(legacy));

    close(nullptr);
    CUevent held = record(blocking);
    EXPECT_CUDA(cuStreamSynchronize(free));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuEventQuery(held), CUDA_ERROR_NOT_READY);
    open();
    EXPECT_CUDA(cuStreamSynchronize(blocking));
}

TEST_F(SoftcudaStream, HostFunctionsRunOnAnotherThreadInOrder)
{
    struct Seen {
        pid_t thread = 0;
        int value = 0;
    } seen;
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = address_of(gate_ + 2);
    ASSERT_CUDA(cuMemsetD32Async(memory, 42, 1, stream));
    static uint64_t* word;
    word = gate_ + 2;
    ASSERT_CUDA(cuLaunchHostFunc(
        stream,
        [](void* argument) {
            auto* out = static_cast<Seen*>(argument);
            out->thread = gettid();
            out->value = static_cast<int>(*word);
        },
        &seen));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(seen.value, 42);
    EXPECT_NE(seen.thread, 0);
    EXPECT_NE(seen.thread, gettid());
}

TEST_F(SoftcudaStream, PageableSourcesAreTakenAtOnce)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = allocate(1000);
    std::vector<unsigned char> bytes(1000, 4);
    close(stream);
    ASSERT_CUDA(cuMemcpyHtoDAsync(memory, bytes.data(), bytes.size(), stream));
    std::fill(bytes.begin(), bytes.end(), 5);
    open();
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(contents(memory, 1000), std::vector<unsigned char>(1000, 4));
}

// Whatever the stream waits for; copies to or from GPU memory do not.
TEST_F(SoftcudaStream, CopiesFromHostToHostMemoryReturnWhenTheyAreDone)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = allocate(4096);
    uint64_t *from = gate_ + 1, *to = gate_ + 2;
    *from = 7;
    *to = 0;
    close(stream);
    ASSERT_CUDA(cuMemcpyAsync(memory, address_of(from), sizeof(*from), stream));
    std::atomic<bool> returned{false};
    std::thread copier([&] {
        EXPECT_CUDA(cuMemcpyAsync(address_of(to), address_of(from), sizeof(*from), stream));
        returned = true;
    });
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_FALSE(returned);
    open();
    copier.join();
    EXPECT_EQ(*to, 7u);
}

TEST_F(SoftcudaStream, FreeingWaitsForWorkUnderWay)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = allocate(4096);
    close(stream);
    CUevent event = record(stream);
    std::thread opener([&] {
        std::this_thread::sleep_for(kLongEnough);
        open();
    });
    EXPECT_CUDA(cuMemFree(memory));
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    opener.join();
}

TEST_F(SoftcudaStream, EventsForOtherProcessesAreEvents)
{
    constexpr unsigned kFlags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    setenv("SOFTCUDA_IPC", "off", 1);
    EXPECT_EQ(cuEventCreate(&event, kFlags), CUDA_ERROR_NOT_SUPPORTED);
    unsetenv("SOFTCUDA_IPC");
    ASSERT_CUDA(cuEventCreate(&event, kFlags));
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    close(stream);
    ASSERT_CUDA(cuEventRecord(event, stream));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    open();
    ASSERT_CUDA(cuEventSynchronize(event));
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    CUipcEventHandle handle;
    EXPECT_EQ(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_CUDA(cuEventDestroy(event));
}

TEST_F(SoftcudaStream, EventsMeasureTime)
{
    CUstream stream = create(CU_STREAM_NON_BLOCKING);
    CUevent start = create_event(0), end = create_event(0);
    ASSERT_CUDA(cuEventRecord(start, stream));
    ASSERT_CUDA(cuEventSynchronize(start));
    close(stream);
    ASSERT_CUDA(cuEventRecord(end, stream));
    float elapsed = 0;
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(cuEventElapsedTime(&elapsed, start, end), CUDA_ERROR_NOT_READY);
    open();
    ASSERT_CUDA(cuStreamSynchronize(stream));
    ASSERT_CUDA(cuEventElapsedTime(&elapsed, start, end));
    EXPECT_GE(elapsed, 20.0f);
    EXPECT_EQ(cuEventElapsedTime(&elapsed, start, create_event(0)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SoftcudaStream, ManyThreadsAndStreams)
{
    constexpr int kThreads = 4, kRounds = 200;
    constexpr size_t kSize = 10000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            ASSERT_CUDA(cuCtxSetCurrent(context_));
            CUstream stream = create(CU_STREAM_NON_BLOCKING);
            void* host = nullptr;
            ASSERT_CUDA(cuMemHostAlloc(&host, kSize, 0));
            for (int round = 0; round < kRounds; ++round) {
                auto value = static_cast<unsigned char>(t * kRounds + round);
                CUdeviceptr memory = allocate(kSize);
                ASSERT_CUDA(cuMemsetD8Async(memory, value, kSize, stream));
                ASSERT_CUDA(cuMemcpyDtoHAsync(host, memory, kSize, stream));
                CUevent event = record(stream);
                CUresult result;
                while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
                }
                ASSERT_CUDA(result);
                ASSERT_EQ(static_cast<unsigned char*>(host)[kSize - 1], value);
                ASSERT_CUDA(cuEventDestroy(event));
                ASSERT_CUDA(cuMemFree(memory));
            }
            ASSERT_CUDA(cuStreamDestroy(stream));
            ASSERT_CUDA(cuMemFreeHost(host));
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_F(SoftcudaStream, LegacyAndPerThreadHandles)
{
    CUcontext context = nullptr;
    EXPECT_CUDA(cuStreamGetCtx(CU_STREAM_LEGACY, &context));
    EXPECT_EQ(context, context_);
    unsigned flags = 99;
    EXPECT_CUDA(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
    EXPECT_EQ(flags, unsigned{CU_STREAM_DEFAULT});
    int least = -1, greatest = 1, priority = 1;
    ASSERT_CUDA(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_LT(greatest, least);
    CUstream stream = nullptr;
    ASSERT_CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    ASSERT_CUDA(cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, greatest);
}

// What a program built for per-thread default streams gets under a name.
template <typename Function>
Function* per_thread(const char* name, int version = 13000)
{
    void* function = nullptr;
    EXPECT_CUDA(
        find_entry_point(name, &function, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
    return reinterpret_cast<Function*>(function);
}

TEST_F(SoftcudaStream, WithPerThreadDefaultStreamsNullIsTheThreadsOwn)
{
    auto* copy_async = per_thread<decltype(cuMemcpyHtoDAsync)>("cuMemcpyHtoDAsync");
    auto* copy = per_thread<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH");
    auto* wait_value = per_thread<decltype(cuStreamWaitValue64)>("cuStreamWaitValue64");
    auto* query = per_thread<decltype(cuStreamQuery)>("cuStreamQuery");
    auto* synchronize = per_thread<decltype(cuStreamSynchronize)>("cuStreamSynchronize");
    ASSERT_TRUE(copy_async && copy && wait_value && query && synchronize);
    CUdeviceptr memory = allocate(4);
    ASSERT_CUDA(cuMemsetD8(memory, 1, 4));

    ASSERT_CUDA(wait_value(nullptr, address_of(gate_), 1, CU_STREAM_WAIT_VALUE_EQ));
    ASSERT_CUDA(copy_async(memory, "new", 4, nullptr));
    EXPECT_EQ(query(nullptr), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    std::thread other([&] {
        ASSERT_CUDA(cuCtxSetCurrent(context_));
        EXPECT_EQ(query(nullptr), CUDA_SUCCESS);
        char bytes[4] = {};
        ASSERT_CUDA(copy(bytes, memory, 4)); // does not wait for the first thread's stream
        EXPECT_EQ(bytes[0], 1);
    });
    other.join();
    open();
    ASSERT_CUDA(synchronize(nullptr));
    char bytes[4] = {};
    ASSERT_CUDA(copy(bytes, memory, 4));
    EXPECT_STREQ(bytes, "new");
}

TEST_F(SoftcudaStream, PerThreadEntryPointsDifferWhereThereIsADefaultStream)
{
    void* ordinary = nullptr;
    for (const char* name : {"cuMemcpy", "cuMemcpyAsync", "cuMemsetD2D16Async", "cuEventRecord",
                             "cuStreamGetId", "cuMemFreeAsync", "cuLaunchHostFunc"}) {
        ASSERT_CUDA(find_entry_point(name, &ordinary, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM));
        EXPECT_NE(per_thread<void()>(name), nullptr) << name;
        EXPECT_NE(reinterpret_cast<void*>(per_thread<void()>(name)), ordinary) << name;
    }
    for (const char* name : {"cuInit", "cuMemAlloc", "cuEventCreate"}) {
        ASSERT_CUDA(find_entry_point(name, &ordinary, 13000));
        EXPECT_EQ(reinterpret_cast<void*>(per_thread<void()>(name)), ordinary) << name;
    }
    EXPECT_EQ(find_entry_point("cuMemcpy", &ordinary, 13000, 4), CUDA_ERROR_INVALID_VALUE);
}
