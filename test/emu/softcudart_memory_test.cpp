// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA runtime on softcuda: memory, copies, streams, events and pointers.
#include "softcudart_fixture.hpp"

#include <cstring>
#include <string>
#include <thread>

using SoftcudartMemory = Softcudart;

// ---- memory

TEST_F(SoftcudartMemory, AllocationsOfNothingAndOfTooMuch)
{
    void* memory = &memory;
    EXPECT_CUDA(cudaMalloc(&memory, 0));
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(cudaMalloc(&memory, SIZE_MAX / 2), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
    EXPECT_CUDA(cudaFreeHost(nullptr));
    size_t before = 0, now = 0, total = 0;
    ASSERT_CUDA(cudaMemGetInfo(&before, &total));
    unsigned char* large = allocate(32 << 20);
    ASSERT_CUDA(cudaMemGetInfo(&now, &total));
    EXPECT_EQ(now, before - (32 << 20));
    EXPECT_CUDA(cudaFree(large));
    EXPECT_EQ(cudaFree(large), cudaErrorInvalidValue);
}

TEST_F(SoftcudartMemory, MemoryInStreamOrder)
{
    cudaStream_t stream = nullptr;
    cudaMemPool_t pool = nullptr;
    void *memory = nullptr, *of_pool = nullptr;
    ASSERT_CUDA(cudaStreamCreate(&stream));
    ASSERT_CUDA(cudaMallocAsync(&memory, 100, stream));
    ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    ASSERT_CUDA(cudaMallocFromPoolAsync(&of_pool, 100, pool, stream));
    ASSERT_CUDA(cudaMemsetAsync(of_pool, 3, 100, stream));
    ASSERT_CUDA(cudaMemcpyAsync(memory, of_pool, 100, cudaMemcpyDefault, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(contents(memory, 100), Bytes(100, 3));
    uint64_t used = 0;
    ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT_EQ(used, 200u);
    EXPECT_CUDA(cudaFreeAsync(memory, stream));
    EXPECT_CUDA(cudaFreeAsync(of_pool, stream));
    EXPECT_CUDA(cudaStreamDestroy(stream));
}

// ---- copies

TEST_F(SoftcudartMemory, CopiesOfEveryKind)
{
    const Bytes bytes = pattern(100);
    unsigned char *a = allocate(100), *b = allocate(100);
    Bytes host(100);
    ASSERT_CUDA(cudaMemcpy(a, bytes.data(), 100, cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaMemcpy(b, a, 100, cudaMemcpyDeviceToDevice));
    ASSERT_CUDA(cudaMemcpy(host.data(), b, 100, cudaMemcpyDeviceToHost));
    EXPECT_EQ(host, bytes);
    host.assign(100, 0);
    ASSERT_CUDA(cudaMemcpy(host.data(), bytes.data(), 100, cudaMemcpyHostToHost));
    EXPECT_EQ(host, bytes);
    ASSERT_CUDA(cudaMemset(b, 0x123, 50)); // the lowest byte counts
    ASSERT_CUDA(cudaMemcpy(host.data(), b, 51, cudaMemcpyDefault));
    EXPECT_EQ(host[49], 0x23);
    EXPECT_EQ(host[50], bytes[50]);
    EXPECT_CUDA(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    EXPECT_EQ(cudaMemcpy(b, host.data(), 100, static_cast<cudaMemcpyKind>(7)),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaMemcpy(host.data(), bytes.data(), 100, cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(b, a, 101, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
}

TEST_F(SoftcudartMemory, CopiesBetweenDevices)
{
    const Bytes bytes = pattern(100);
    unsigned char* first = allocate(100);
    ASSERT_CUDA(cudaMemcpy(first, bytes.data(), 100, cudaMemcpyHostToDevice));
    int can = 0;
    ASSERT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 1);
    EXPECT_CUDA(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    EXPECT_CUDA(cudaDeviceDisablePeerAccess(1));
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    ASSERT_CUDA(cudaSetDevice(1));
    unsigned char* second = allocate(100);
    ASSERT_CUDA(cudaMemcpyPeer(second, 1, first, 0, 100));
    EXPECT_EQ(contents(second, 100), bytes);
    cudaPointerAttributes attributes{};
    ASSERT_CUDA(cudaPointerGetAttributes(&attributes, second));
    EXPECT_EQ(attributes.device, 1);
}

TEST_F(SoftcudartMemory, RowsAndBoxes)
{
    const Bytes bytes = pattern(24);
    void* memory = nullptr;
    size_t pitch = 0;
    ASSERT_CUDA(cudaMallocPitch(&memory, &pitch, 4, 6));
    ASSERT_CUDA(cudaMemset2D(memory, pitch, 99, 4, 6));
    ASSERT_CUDA(cudaMemcpy2D(memory, pitch, bytes.data(), 4, 3, 6, cudaMemcpyHostToDevice));
    Bytes host(24);
    ASSERT_CUDA(cudaMemcpy2D(host.data(), 4, memory, pitch, 4, 6, cudaMemcpyDeviceToHost));
    EXPECT_EQ(Bytes(host.begin() + 20, host.end()), (Bytes{21, 22, 23, 99}));
    EXPECT_EQ(cudaMemcpy2D(memory, 2, bytes.data(), 4, 3, 6, cudaMemcpyHostToDevice),
              cudaErrorInvalidPitchValue);

    cudaPitchedPtr box{};
    ASSERT_CUDA(cudaMalloc3D(&box, {4, 3, 2}));
    cudaMemcpy3DParms copy{};
    copy.srcPtr = {const_cast<unsigned char*>(bytes.data()), 4, 4, 3};
    copy.dstPtr = box;
    copy.extent = {4, 3, 2};
    copy.kind = cudaMemcpyHostToDevice;
    ASSERT_CUDA(cudaMemcpy3D(&copy));
    ASSERT_CUDA(cudaMemset3D(box, 55, {2, 1, 2}));
    copy = {};
    host.assign(4, 0);
    copy.srcPtr = box;
    copy.srcPos = {0, 0, 1};
    copy.dstPtr = {host.data(), 4, 4, 1};
    copy.extent = {4, 1, 1};
    copy.kind = cudaMemcpyDeviceToHost;
    ASSERT_CUDA(cudaMemcpy3D(&copy));
    EXPECT_EQ(host, (Bytes{55, 55, 15, 16}));
}

// ---- streams and events

TEST_F(SoftcudartMemory, EventsOfAStream)
{
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr, end = nullptr;
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaEventCreate(&start));
    ASSERT_CUDA(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
    unsigned char* memory = allocate(100);
    void* host = nullptr;
    ASSERT_CUDA(cudaMallocHost(&host, 100));
    Gate gate;
    ASSERT_CUDA(cudaEventRecord(start, stream));
    gate.close(stream);
    ASSERT_CUDA(cudaMemsetAsync(memory, 7, 100, stream));
    ASSERT_CUDA(cudaMemcpyAsync(host, memory, 100, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaEventRecord(end, stream));
    EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady); // which programs clear after a query
    gate.open();
    ASSERT_CUDA(cudaEventSynchronize(end));
    EXPECT_EQ(static_cast<char*>(host)[99], 7);
    EXPECT_CUDA(cudaStreamQuery(stream));
    float milliseconds = -1;
    ASSERT_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 0);
    EXPECT_CUDA(cudaEventDestroy(start));
    EXPECT_EQ(cudaEventDestroy(start), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA(cudaStreamDestroy(stream));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
}

TEST_F(SoftcudartMemory, StreamsWaitForEventsAndTellWhatTheyAre)
{
    int least = 1, greatest = 1, priority = 1;
    unsigned flags = 9;
    cudaStream_t first = nullptr, second = nullptr;
    cudaEvent_t event = nullptr;
    ASSERT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    ASSERT_CUDA(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest));
    ASSERT_CUDA(cudaStreamGetPriority(first, &priority));
    EXPECT_EQ(priority, greatest);
    ASSERT_CUDA(cudaStreamGetFlags(first, &flags));
    EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
    ASSERT_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    Gate gate;
    gate.close(first);
    ASSERT_CUDA(cudaEventRecord(event, first));
    ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
    EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
    gate.open();
    ASSERT_CUDA(cudaStreamSynchronize(second));
    EXPECT_CUDA(cudaStreamSynchronize(first)); // whose last operation may be on its way out
    EXPECT_CUDA(cudaStreamQuery(first));
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusInvalidated;
    ASSERT_CUDA(cudaStreamIsCapturing(first, &capture));
    EXPECT_EQ(capture, cudaStreamCaptureStatusNone);
#if CUDART_VERSION >= 12080
    ASSERT_CUDA(cudaSetDevice(1));
    int device = -1;
    ASSERT_CUDA(cudaStreamGetDevice(first, &device));
    EXPECT_EQ(device, 0);
    ASSERT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
#endif
}

TEST_F(SoftcudartMemory, CallbacksGetWhatWasGivenForThem)
{
    struct Seen {
        cudaStream_t stream;
        cudaError_t status;
    } seen{nullptr, cudaErrorUnknown};
    cudaStream_t stream = nullptr;
    ASSERT_CUDA(cudaStreamCreate(&stream));
    ASSERT_CUDA(cudaStreamAddCallback(
        stream,
        [](cudaStream_t of, cudaError_t status, void* argument) {
            *static_cast<Seen*>(argument) = {of, status};
        },
        &seen, 0));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(seen.stream, stream);
    EXPECT_EQ(seen.status, cudaSuccess);
    EXPECT_EQ(cudaStreamAddCallback(stream, nullptr, nullptr, 0), cudaErrorInvalidValue);
}

// ---- pointers

TEST_F(SoftcudartMemory, AttributesOfEachKindOfMemory)
{
    unsigned char* device = allocate(100);
    void *host = nullptr, *managed = nullptr, *alias = nullptr;
    Bytes registered(4096), ordinary(100);
    ASSERT_CUDA(cudaHostAlloc(&host, 100, cudaHostAllocMapped | cudaHostAllocPortable));
    ASSERT_CUDA(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
    ASSERT_CUDA(cudaHostRegister(registered.data(), registered.size(), cudaHostRegisterDefault));
    ASSERT_CUDA(cudaHostGetDevicePointer(&alias, host, 0));
    EXPECT_EQ(alias, host);

    cudaPointerAttributes attributes{};
    const auto get = [&](void* pointer) {
        EXPECT_CUDA(cudaPointerGetAttributes(&attributes, pointer));
        return attributes.type;
    };
    EXPECT_EQ(get(device + 50), cudaMemoryTypeDevice);
    EXPECT_EQ(attributes.devicePointer, device + 50);
    EXPECT_EQ(attributes.hostPointer, nullptr);
    EXPECT_EQ(attributes.device, 0);
    EXPECT_EQ(get(host), cudaMemoryTypeHost);
    EXPECT_EQ(attributes.hostPointer, host);
    EXPECT_EQ(get(registered.data() + 1), cudaMemoryTypeHost);
    EXPECT_EQ(get(managed), cudaMemoryTypeManaged);
    EXPECT_EQ(attributes.devicePointer, managed);
    EXPECT_EQ(get(ordinary.data()), cudaMemoryTypeUnregistered);
    EXPECT_EQ(attributes.devicePointer, nullptr);
    EXPECT_EQ(attributes.device, cudaInvalidDeviceId);
    EXPECT_EQ(cudaPointerGetAttributes(nullptr, device), cudaErrorInvalidValue);
    EXPECT_CUDA(cudaHostUnregister(registered.data()));
    EXPECT_EQ(get(registered.data()), cudaMemoryTypeUnregistered);
    EXPECT_CUDA(cudaFreeHost(host));
}

TEST_F(SoftcudartMemory, HintsAreForManagedMemory)
{
    void* managed = nullptr;
    ASSERT_CUDA(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
    const auto prefetch = [](void* memory, size_t size) {
#if CUDART_VERSION >= 13000
        return cudaMemPrefetchAsync(memory, size, {cudaMemLocationTypeDevice, 0}, 0, nullptr);
#else
        return cudaMemPrefetchAsync(memory, size, 0, nullptr);
#endif
    };
    EXPECT_CUDA(prefetch(managed, 100));
    EXPECT_EQ(prefetch(managed, 101), cudaErrorInvalidValue);
    EXPECT_EQ(prefetch(allocate(100), 100), cudaErrorInvalidValue);
}
