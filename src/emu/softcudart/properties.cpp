// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// cudaGetDeviceProperties. What it fills in, cudaDeviceProp, is another structure in each of CUDA
// 11, 12 and 13. Most members are device attributes; those of textures and surfaces, of which there
// are none, are 0.
#include "emu/softcudart/api.hpp"

#include <cstring>

namespace softcudart {

namespace {

/// Sizes of the structures. Of CUDA 12's the first part is CUDA 11's.
constexpr size_t kSize11 = 728, kSize12 = 1032, kSize13 = 1008;

enum class Type { int32, size };

/// A member that is an attribute: where it is in the structures of CUDA 11 and 12, and of 13.
struct Member {
    CUdevice_attribute attribute;
    Type type;
    int offset, offset_13;
};
constexpr int kGone = -1;

constexpr Member kMembers[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, Type::size, 296, 296},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, Type::int32, 304, 304},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, Type::int32, 308, 308},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, Type::size, 312, 312},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, Type::int32, 320, 320},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, Type::int32, 324, 324},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, Type::int32, 328, 328},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, Type::int32, 332, 332},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, Type::int32, 336, 336},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, Type::int32, 340, 340},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, Type::int32, 344, 344},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, Type::int32, 348, kGone},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, Type::size, 352, 352},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, Type::int32, 360, 360},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, Type::int32, 364, 364},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, Type::size, 368, 368},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, Type::int32, 384, kGone},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, Type::int32, 388, 384},
    {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, Type::int32, 392, kGone},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, Type::int32, 396, 388},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, Type::int32, 400, 392},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, Type::int32, 404, kGone},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, Type::int32, 576, 560},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, Type::int32, 580, 564},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, Type::int32, 584, 568},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, Type::int32, 588, 572},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, Type::int32, 592, 576},
    {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, Type::int32, 596, 580},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, Type::int32, 600, 584},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, Type::int32, 604, 588},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, Type::int32, 608, kGone},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, Type::int32, 612, 592},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, Type::int32, 616, 596},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, Type::int32, 624, 604},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, Type::int32, 628, 608},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, Type::int32, 632, 612},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, Type::int32, 636, 616},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, Type::size, 640, 624},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, Type::int32, 648, 632},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, Type::int32, 652, 636},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, Type::int32, 656, 640},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, Type::int32, 660, 644},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, Type::int32, 664, 648},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, Type::int32, 672, 652},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, Type::int32, 676, 656},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, Type::int32, 680, 660},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, Type::int32, 684, 664},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, Type::int32, 688, 668},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, Type::int32, 692, kGone},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, Type::int32, 704, 680},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, Type::int32, 708, 684},
    // since CUDA 12
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, Type::int32, 728, 704},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, Type::int32, 736, 712},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, Type::int32, 740, 716},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, Type::int32, 744, 720},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, Type::int32, 748, 724},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, Type::int32, 752, 728},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, Type::int32, 756, 732},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, Type::int32, 760, 736},
};

/// What is no attribute is at the same place in all of them.
constexpr size_t kName = 0, kNameLength = 256, kUuid = 256, kTotalMemory = 288;

/// Fills in `size` bytes of one of the structures.
void fill(char* properties, size_t size, int device)
{
    require(properties != nullptr);
    int count = 0;
    check(cuDeviceGetCount(&count));
    require(device >= 0 && device < count, CUDA_ERROR_INVALID_DEVICE);
    std::memset(properties, 0, size);
    check(cuDeviceGetName(properties + kName, kNameLength, device));
    CUuuid uuid{};
    check(cuDeviceGetUuid(&uuid, device));
    std::memcpy(properties + kUuid, &uuid, sizeof(uuid));
    size_t total = 0;
    check(cuDeviceTotalMem(&total, device));
    std::memcpy(properties + kTotalMemory, &total, sizeof(total));
    for (const Member& member : kMembers) {
        const int offset = size == kSize13 ? member.offset_13 : member.offset;
        if (offset == kGone || static_cast<size_t>(offset) >= size) {
            continue;
        }
        int value = 0;
        check(cuDeviceGetAttribute(&value, member.attribute, device));
        if (member.type == Type::size) {
            const auto wide = static_cast<size_t>(value);
            std::memcpy(properties + offset, &wide, sizeof(wide));
        } else {
            std::memcpy(properties + offset, &value, sizeof(value));
        }
    }
}

} // namespace

} // namespace softcudart

using namespace softcudart;

// CUDA 12's header gives its programs the second name; those of CUDA 11 know the first.
SOFTCUDART_EXPORT int cudaGetDeviceProperties(void* properties, int device)
{
    return api(__func__, Needs::driver, [&] {
        fill(static_cast<char*>(properties), kVersion >= 13000 ? kSize13 : kSize11, device);
    });
}

SOFTCUDART_EXPORT int cudaGetDeviceProperties_v2(void* properties, int device)
{
    return api(__func__, Needs::driver,
               [&] { fill(static_cast<char*>(properties), kSize12, device); });
}
