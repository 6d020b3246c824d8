// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: devices, contexts, memory of every kind, and what may be asked about it.
#include "softcuda_fixture.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

namespace {

class SoftcudaMemory : public Softcuda {
  protected:
    // cuda.h declares the newest of several functions of this name only.
    static CUresult create_context(CUcontext* context, CUdevice device)
    {
        void* function = nullptr;
        CUresult found = find_entry_point("cuCtxCreate", &function, 11000);
        if (found != CUDA_SUCCESS) {
            return found;
        }
        return reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(function)(context, 0,
                                                                                        device);
    }

    // cuMemCreate memory of one granule.
    CUmemGenericAllocationHandle create(bool rdma_capable, size_t size = kGranule)
    {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        properties.allocFlags.gpuDirectRDMACapable = rdma_capable;
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CUDA(cuMemCreate(&handle, size, &properties, 0));
        return handle;
    }
    void set_access(CUdeviceptr address, size_t size)
    {
        CUmemAccessDesc access{};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        EXPECT_CUDA(cuMemSetAccess(address, size, &access, 1));
    }

    static constexpr size_t kGranule = size_t{2} << 20;
};

} // namespace

// ---- devices

TEST_F(SoftcudaMemory, TwoDevicesThatDiffer)
{
    int count = 0;
    ASSERT_CUDA(cuDeviceGetCount(&count));
    ASSERT_EQ(count, 2);
    std::set<std::string> uuids, buses;
    for (int i = 0; i < count; ++i) {
        CUdevice device = -1, found = -1;
        ASSERT_CUDA(cuDeviceGet(&device, i));
        CUuuid uuid;
        ASSERT_CUDA(cuDeviceGetUuid(&uuid, device));
        uuids.emplace(uuid.bytes, sizeof(uuid.bytes));
        char bus[32];
        ASSERT_CUDA(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
        buses.emplace(bus);
        ASSERT_CUDA(cuDeviceGetByPCIBusId(&found, bus));
        EXPECT_EQ(found, device);
        int domain = 0;
        ASSERT_CUDA(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device));
        EXPECT_EQ(std::stoi(bus, nullptr, 16), domain);
        size_t total = 0;
        ASSERT_CUDA(cuDeviceTotalMem(&total, device));
        EXPECT_EQ(total, size_t{4} << 30);
    }
    EXPECT_EQ(uuids.size(), 2u);
    EXPECT_EQ(buses.size(), 2u);
    CUdevice device;
    EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(SoftcudaMemory, AttributesOfAnH200)
{
    auto value = [](CUdevice_attribute which) {
        int v = -1;
        EXPECT_CUDA(cuDeviceGetAttribute(&v, which, 0));
        return v;
    };
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING), 100);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS), 0);
    EXPECT_EQ(value(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    int ignored;
    EXPECT_EQ(cuDeviceGetAttribute(&ignored, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
}

// ---- contexts

TEST_F(SoftcudaMemory, WithoutAContextMostThingsAreRefused)
{
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    CUdeviceptr memory;
    CUdevice device;
    CUstream stream;
    EXPECT_EQ(cuMemAlloc(&memory, 4096), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPopCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext current = context_;
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
}

TEST_F(SoftcudaMemory, CurrentContextBelongsToTheThread)
{
    CUcontext seen = context_;
    std::thread([&] { EXPECT_CUDA(cuCtxGetCurrent(&seen)); }).join();
    EXPECT_EQ(seen, nullptr);
    EXPECT_CUDA(cuCtxGetCurrent(&seen));
    EXPECT_EQ(seen, context_);
}

// Destroyed at the end of the thread, after what the thread has made later.
struct CallAtEnd {
    CUcontext context;
    CUcontext* seen;
    ~CallAtEnd()
    {
        CUcontext* volatile allocated = new CUcontext{}; // where others of the thread were
        EXPECT_CUDA(cuCtxPushCurrent(context));
        EXPECT_CUDA(cuCtxPopCurrent(seen));
        EXPECT_EQ(*allocated, nullptr);
        delete allocated;
    }
};

TEST_F(SoftcudaMemory, AThreadThatEndsMakesAContextCurrent)
{
    CUcontext seen = nullptr;
    std::thread([&] {
        thread_local const CallAtEnd at_end{context_, &seen};
        EXPECT_EQ(at_end.context, context_);
        EXPECT_CUDA(cuCtxPushCurrent(context_));
        EXPECT_CUDA(cuCtxPopCurrent(nullptr));
    }).join();
    EXPECT_EQ(seen, context_);
}

TEST_F(SoftcudaMemory, ADestroyedContextTakesItsMemoryAlong)
{
    CUcontext own = nullptr, current = nullptr;
    ASSERT_CUDA(create_context(&own, 1));
    CUdevice device = -1;
    ASSERT_CUDA(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 1);
    CUdeviceptr memory = allocate(4096);
    EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, memory), own);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), 1);
    ASSERT_CUDA(cuCtxDestroy(own));
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, context_);
    EXPECT_EQ(attribute_error(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxPushCurrent(own), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(SoftcudaMemory, PrimaryContextLivesWhileRetained)
{
    unsigned flags = 0;
    int active = -1;
    CUcontext first = nullptr, second = nullptr;
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(active, 0);
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&first, 1));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&second, 1));
    EXPECT_EQ(first, second);
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(1));
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(active, 1);
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(1));
    ASSERT_CUDA(cuDevicePrimaryCtxGetState(1, &flags, &active));
    EXPECT_EQ(active, 0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
}

// ---- allocation

TEST_F(SoftcudaMemory, DeviceMemoryKeepsItsBytes)
{
    CUdeviceptr memory = allocate(100000);
    auto bytes = pattern(100000);
    ASSERT_CUDA(cuMemcpyHtoD(memory, bytes.data(), bytes.size()));
    EXPECT_EQ(contents(memory, bytes.size()), bytes);
    CUdeviceptr other = allocate(100000);
    ASSERT_CUDA(cuMemcpyDtoD(other + 1, memory, 5000));
    EXPECT_EQ(contents(other + 1, 5000), std::vector(bytes.begin(), bytes.begin() + 5000));
    ASSERT_CUDA(cuMemsetD32(memory + 4, 0x01020304, 2));
    EXPECT_EQ(contents(memory + 4, 8), (std::vector<unsigned char>{4, 3, 2, 1, 4, 3, 2, 1}));
    // The alias shows the same bytes.
    auto* alias = static_cast<unsigned char*>(softcuda_host_alias(pointer(other), 100000));
    ASSERT_NE(alias, nullptr);
    EXPECT_EQ(std::memcmp(alias + 1, bytes.data(), 4), 0);
    alias[3] = 99;
    EXPECT_EQ(contents(other + 3, 1)[0], 99);
    EXPECT_EQ(softcuda_host_alias(pointer(other), 100001), nullptr);
}

TEST_F(SoftcudaMemory, CopiesRespectTheBoundsOfAllocations)
{
    CUdeviceptr memory = allocate(8192);
    std::vector<unsigned char> bytes(20000);
    EXPECT_EQ(cuMemcpyHtoD(memory, bytes.data(), 8193), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(memory - 1, bytes.data(), 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(bytes.data(), memory + 8192, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(address_of(bytes.data()), bytes.data() + 1, 1),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemcpyDtoH(pointer(memory), memory + 9, 1)); // addresses say what they are
    EXPECT_CUDA(cuMemcpy(address_of(bytes.data()), memory, 8192));
    ASSERT_CUDA(cuMemFree(memory));
    EXPECT_EQ(cuMemcpyDtoH(bytes.data(), memory, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaMemory, AddressesAreUsedAgainBufferIdsAreNot)
{
    for (size_t size : {size_t{100}, size_t{65536}, size_t{1} << 20, size_t{33} << 20}) {
        CUdeviceptr first = allocate(size);
        auto id = attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, first);
        void* alias = softcuda_host_alias(pointer(first), size);
        ASSERT_CUDA(cuMemsetD8(first, 7, size));
        ASSERT_CUDA(cuMemFree(first));
        CUdeviceptr second = allocate(size);
        EXPECT_EQ(second, first) << size;
        EXPECT_NE(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, second), id);
        // Who still holds the old memory does not touch the new one.
        EXPECT_NE(softcuda_host_alias(pointer(second), size), alias);
        ASSERT_CUDA(cuMemsetD8(second, 9, size));
        std::memset(alias, 8, size);
        EXPECT_EQ(contents(second, size), std::vector<unsigned char>(size, 9));
        ASSERT_CUDA(cuMemFree(second));
    }
}

TEST_F(SoftcudaMemory, MemoryIsBounded)
{
    size_t free_before = 0, free_after = 0, total = 0;
    ASSERT_CUDA(cuMemGetInfo(&free_before, &total));
    std::vector<CUdeviceptr> chunks;
    CUdeviceptr memory = 0;
    CUresult result;
    while ((result = cuMemAlloc(&memory, size_t{512} << 20)) == CUDA_SUCCESS) {
        chunks.push_back(memory);
        ASSERT_LE(chunks.size(), 8u);
    }
    EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_GE(chunks.size(), 7u);
    for (CUdeviceptr chunk : chunks) {
        EXPECT_CUDA(cuMemFree(chunk));
    }
    ASSERT_CUDA(cuMemGetInfo(&free_after, &total));
    EXPECT_EQ(free_after, free_before);
    EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(&memory, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
}

// A process may have 65,530 mappings, and the CPU's view of memory stays when it is freed.
TEST_F(SoftcudaMemory, AllocationsInARowNeedNoMappingEach)
{
    const auto mappings = [] {
        std::ifstream maps("/proc/self/maps");
        return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    };
    const auto before = mappings();
    for (int i = 0; i < 2000; ++i) {
        CUdeviceptr address = 0;
        ASSERT_CUDA(cuMemAlloc(&address, i % 2 == 0 ? kGranule : 3 * kGranule));
        EXPECT_CUDA(cuMemFree(address));
        CUmemGenericAllocationHandle handle = create(true);
        EXPECT_CUDA(cuMemRelease(handle));
    }
    EXPECT_LT(mappings(), before + 200);
}

TEST_F(SoftcudaMemory, PitchedMemoryAnd2dCopies)
{
    CUdeviceptr memory = 0;
    size_t pitch = 0;
    ASSERT_CUDA(cuMemAllocPitch(&memory, &pitch, 100, 3, 4));
    ASSERT_GE(pitch, 100u);
    auto bytes = pattern(300);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = bytes.data();
    copy.srcPitch = 100;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = pitch;
    copy.WidthInBytes = 100;
    copy.Height = 3;
    ASSERT_CUDA(cuMemcpy2D(&copy));
    EXPECT_EQ(contents(memory + 2 * pitch, 100), std::vector(bytes.begin() + 200, bytes.end()));

    using Bytes = std::vector<unsigned char>;
    CUstream stream = nullptr;
    ASSERT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuMemsetD2D8Async(memory, pitch, 7, 10, 3, stream));
    ASSERT_CUDA(cuMemsetD2D16Async(memory + 10, pitch, 0x0809, 2, 3, stream));
    ASSERT_CUDA(cuMemsetD2D32Async(memory + 16, pitch, 0x0a0b0c0d, 1, 3, stream));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(contents(memory + pitch + 9, 12),
              (Bytes{7, 9, 8, 9, 8, bytes[114], bytes[115], 13, 12, 11, 10, bytes[120]}));
    ASSERT_CUDA(cuMemsetD2D16(memory + 10, pitch, 0x0102, 1, 3));
    EXPECT_EQ(contents(memory + 2 * pitch + 10, 4), (Bytes{2, 1, 9, 8}));
    EXPECT_CUDA(cuStreamDestroy(stream));
}

// ---- attributes of pointers

TEST_F(SoftcudaMemory, AttributesOfDeviceMemory)
{
    CUdeviceptr memory = allocate(100);
    CUdeviceptr inside = memory + 50;
    EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside),
              unsigned{CU_MEMORYTYPE_DEVICE});
    EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside), memory);
    EXPECT_EQ(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), 100u);
    EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside), inside);
    EXPECT_EQ(attribute_error(CU_POINTER_ATTRIBUTE_HOST_POINTER, inside), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, inside), 1);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside), 1);
    EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, inside), context_);
    CUdeviceptr base = 0;
    size_t size = 0;
    ASSERT_CUDA(cuMemGetAddressRange(&base, &size, inside));
    EXPECT_EQ(base, memory);
    EXPECT_EQ(size, 100u);
    EXPECT_EQ(attribute_error(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory + 100),
              CUDA_ERROR_INVALID_VALUE);
    int on = 1;
    EXPECT_CUDA(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), 1);
}

TEST_F(SoftcudaMemory, OrdinaryMemoryHasNoAttributes)
{
    std::vector<char> heap(100);
    EXPECT_EQ(attribute_error(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(heap.data())),
              CUDA_ERROR_INVALID_VALUE);
    unsigned type = 99;
    unsigned long long id = 99;
    size_t size = 99;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* values[] = {&type, &id, &size};
    EXPECT_CUDA(cuPointerGetAttributes(3, which, values, address_of(heap.data())));
    EXPECT_EQ(type, 0u);
    EXPECT_EQ(id, 0u);
    EXPECT_EQ(size, 99u); // left as it was
}

TEST_F(SoftcudaMemory, ManagedMemoryIsOnBothSides)
{
    CUdeviceptr memory = 0;
    ASSERT_CUDA(cuMemAllocManaged(&memory, 10000, CU_MEM_ATTACH_GLOBAL));
    std::memset(pointer(memory), 5, 10000); // by the CPU
    EXPECT_EQ(contents(memory, 10000), std::vector<unsigned char>(10000, 5));
    EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, memory), 1u);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, memory), 0);
    EXPECT_EQ(softcuda_host_alias(pointer(memory), 1), nullptr);
    EXPECT_CUDA(cuMemFree(memory));
}

TEST_F(SoftcudaMemory, HostMemoryOfTheDriver)
{
    void* memory = nullptr;
    ASSERT_CUDA(cuMemHostAlloc(&memory, 10000, CU_MEMHOSTALLOC_PORTABLE));
    std::memset(memory, 5, 10000);
    EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(memory)),
              unsigned{CU_MEMORYTYPE_HOST});
    EXPECT_EQ(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, address_of(memory)), memory);
    CUdeviceptr mapped = 0;
    EXPECT_CUDA(cuMemHostGetDevicePointer(&mapped, memory, 0));
    EXPECT_EQ(mapped, address_of(memory));
    EXPECT_CUDA(cuMemFreeHost(memory));

    std::vector<char> heap(100000);
    ASSERT_CUDA(cuMemHostRegister(heap.data(), heap.size(), 0));
    EXPECT_EQ(cuMemHostRegister(heap.data() + 5, 5, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address_of(heap.data() + 9)),
              heap.size());
    ASSERT_CUDA(cuMemHostUnregister(heap.data()));
    EXPECT_EQ(cuMemHostUnregister(heap.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

// ---- pools and virtual memory management

TEST_F(SoftcudaMemory, PoolMemory)
{
    CUmemoryPool pool = nullptr;
    ASSERT_CUDA(cuDeviceGetDefaultMemPool(&pool, 0));
    CUdeviceptr memory = 0;
    ASSERT_CUDA(cuMemAllocAsync(&memory, 5000, nullptr));
    EXPECT_EQ(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory), pool);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, memory), 0);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory), 0);
    EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, memory), nullptr);
    cuuint64_t used = 0;
    ASSERT_CUDA(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_EQ(used, 5000u);
    CUipcMemHandle ipc;
    EXPECT_EQ(cuIpcGetMemHandle(&ipc, memory), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuMemFreeAsync(memory, nullptr));
    EXPECT_EQ(cuMemFreeAsync(memory, nullptr), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuStreamSynchronize(nullptr));
}

// As on two H200s: what a context owns is copied by any device, the rest by devices with access.
TEST_F(SoftcudaMemory, ReachOfOtherDevices)
{
    CUcontext first = nullptr, other = nullptr;
    ASSERT_CUDA(cuCtxGetCurrent(&first));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&other, 1));
    CUdeviceptr owned = 0, pool = 0, range = 0;
    ASSERT_CUDA(cuMemAlloc(&owned, 64));
    ASSERT_CUDA(cuMemAllocAsync(&pool, 64, nullptr));
    ASSERT_CUDA(cuMemAddressReserve(&range, kGranule, 0, 0, 0));
    CUmemGenericAllocationHandle handle = create(true);
    ASSERT_CUDA(cuMemMap(range, kGranule, 0, handle, 0));
    set_access(range, kGranule);
    ASSERT_CUDA(cuCtxPushCurrent(other));
    char bytes[64] = {};
    EXPECT_CUDA(cuMemcpyHtoD(owned, bytes, 64));
    EXPECT_EQ(cuMemcpyHtoD(pool, bytes, 64), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(bytes, range, 64), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoD(owned, range, 64), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemcpyPeer(owned, first, range, first, 64));
    EXPECT_EQ(cuMemcpyPeer(owned, other, range, other, 64), CUDA_ERROR_INVALID_VALUE);

    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_CUDA(cuMemSetAccess(range, kGranule, &access, 1));
    EXPECT_CUDA(cuMemcpyDtoD(owned, range, 64));
    unsigned long long flags = 0;
    ASSERT_CUDA(cuMemGetAccess(&flags, &access.location, range));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    ASSERT_CUDA(cuMemSetAccess(range, kGranule, &access, 1));
    EXPECT_EQ(cuMemcpyDtoD(owned, range, 64), CUDA_ERROR_INVALID_VALUE);

    CUcontext popped = nullptr;
    ASSERT_CUDA(cuCtxPopCurrent(&popped));
    EXPECT_CUDA(cuMemcpyDtoD(owned, range, 64)); // the first device's own access is still there
    ASSERT_CUDA(cuMemUnmap(range, kGranule));
    ASSERT_CUDA(cuMemRelease(handle));
    ASSERT_CUDA(cuMemAddressFree(range, kGranule));
    ASSERT_CUDA(cuMemFree(pool));
    ASSERT_CUDA(cuMemFree(owned));
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(1));
}

TEST_F(SoftcudaMemory, TwoHandlesMappedSideBySide)
{
    CUmemGenericAllocationHandle first = create(true), second = create(true);
    CUdeviceptr range = 0;
    ASSERT_CUDA(cuMemAddressReserve(&range, 2 * kGranule, 0, 0, 0));
    ASSERT_CUDA(cuMemMap(range, kGranule, 0, first, 0));
    EXPECT_EQ(cuMemMap(range, kGranule, 0, second, 0), CUDA_ERROR_INVALID_VALUE); // taken
    ASSERT_CUDA(cuMemMap(range + kGranule, kGranule, 0, second, 0));
    auto bytes = pattern(8192);
    EXPECT_EQ(cuMemcpyHtoD(range, bytes.data(), 1), CUDA_ERROR_INVALID_VALUE); // no access yet
    set_access(range, 2 * kGranule);
    // A copy across the seam, and what belongs to the first mapping alone.
    ASSERT_CUDA(cuMemcpyHtoD(range + kGranule - 4096, bytes.data(), bytes.size()));
    EXPECT_EQ(contents(range + kGranule - 4096, bytes.size()), bytes);
    CUdeviceptr base = 0;
    size_t size = 0;
    ASSERT_CUDA(cuMemGetAddressRange(&base, &size, range + kGranule));
    EXPECT_EQ(base, range + kGranule);
    EXPECT_EQ(size, kGranule);
    // The attributes tell the reservation.
    EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, range + kGranule),
              range);
    EXPECT_EQ(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, range), 2 * kGranule);
    EXPECT_NE(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, range),
              attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, range + kGranule));
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, range), 1);
    int on = 1;
    EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(softcuda_host_alias(pointer(range), 2 * kGranule), nullptr);
    // Handles may go before the mappings.
    ASSERT_CUDA(cuMemRelease(first));
    ASSERT_CUDA(cuMemRelease(second));
    EXPECT_EQ(contents(range + kGranule, 1)[0], bytes[4096]);
    EXPECT_EQ(cuMemAddressFree(range, 2 * kGranule), CUDA_ERROR_INVALID_VALUE); // still mapped
    ASSERT_CUDA(cuMemUnmap(range, 2 * kGranule));
    ASSERT_CUDA(cuMemAddressFree(range, 2 * kGranule));
    EXPECT_EQ(attribute_error(CU_POINTER_ATTRIBUTE_BUFFER_ID, range), CUDA_ERROR_INVALID_VALUE);
}
