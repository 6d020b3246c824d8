// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a program may ask about an address.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/memory.hpp"

#include <cstring>
#include <utility>

namespace softcuda {

namespace {

/// Stores an answer of the type that the attribute has.
template <typename Value>
CUresult answer(void* data, Value value)
{
    std::memcpy(data, &value, sizeof(value));
    return CUDA_SUCCESS;
}

// Attributes whose names came with CUDA 11.8.
constexpr int kMappingSize = 18;
constexpr int kMappingBase = 19;
constexpr int kMemoryBlockId = 20;

using AddressRange = std::pair<uintptr_t, size_t>;

/// What the driver calls the range of an address: of vmm memory the whole reservation.
AddressRange range(const Allocation& a)
{
    return a.kind == Kind::vmm ? AddressRange(a.reserved, a.reserved_length)
                               : AddressRange(a.base, a.size);
}

/// Where memory is mapped: whole pages, of vmm memory the mapping, of a pool's its block.
AddressRange mapping(const Allocation& a)
{
    uintptr_t start = a.mapped_at();
    return {start, round_up(a.base + a.size, kPage) - start};
}

unsigned long long allowed_handle_types(const Allocation& a)
{
    return a.kind == Kind::vmm ? a.flags : 0;
}

/// One attribute of known memory. Where it has none, the result is an error and `data` is
/// untouched.
CUresult get(void* data, CUpointer_attribute attribute, const Allocation& a, uintptr_t address)
{
    switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return answer(data, a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        bool host = !a.on_device() && a.kind != Kind::managed;
        return answer(data,
                      static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return answer(data, static_cast<CUdeviceptr>(address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return a.on_device() ? CUDA_ERROR_INVALID_VALUE : answer(data, as_pointer(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return answer(data, static_cast<int>(a.sync_memops || a.kind == Kind::managed));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return answer(data, static_cast<unsigned long long>(a.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return answer(data, static_cast<unsigned>(a.kind == Kind::managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return answer(data, a.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return answer(data, static_cast<int>(a.kind == Kind::device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return answer(data, static_cast<CUdeviceptr>(range(a).first));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return answer(data, range(a).second);
    case kMappingBase:
        return answer(data, static_cast<CUdeviceptr>(mapping(a).first));
    case kMappingSize:
        return answer(data, mapping(a).second);
    case kMemoryBlockId:
        return answer(data, static_cast<unsigned long long>(a.kind == Kind::vmm ? a.vmm_handle
                                                                                : a.buffer_id));
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return answer(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return answer(data, allowed_handle_types(a));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return answer(data, static_cast<int>(a.rdma_capable));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return answer(data, static_cast<unsigned>(a.accessible_to != 0
                                                      ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                      : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return answer(data, a.pool);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/// What the plural query reports for memory that does not have the attribute.
void clear(void* data, CUpointer_attribute attribute, bool known, uintptr_t address)
{
    switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        answer(data, known ? 0 : address);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        break; // left as they are
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        answer(data, 0);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        answer(data, CU_DEVICE_INVALID);
        break;
    default:
        answer(data, uint64_t{0});
        break;
    }
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address)
{
    return api(__func__, Needs::init, [&] {
        require(data != nullptr);
        auto allocation = find(address);
        return allocation ? get(data, attribute, *allocation, address) : CUDA_ERROR_INVALID_VALUE;
    });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address)
{
    return api(__func__, Needs::init, [&] {
        require(count > 0 && attributes != nullptr && data != nullptr);
        auto allocation = find(address);
        for (unsigned i = 0; i < count; ++i) {
            if (!allocation || get(data[i], attributes[i], *allocation, address) != CUDA_SUCCESS) {
                clear(data[i], attributes[i], allocation.has_value(), address);
            }
        }
    });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
        require_no_capture();
        auto allocation = find(address);
        require(allocation.has_value());
        require(allocation->kind != Kind::vmm, CUDA_ERROR_NOT_SUPPORTED);
        int wanted = 0;
        std::memcpy(&wanted, value, sizeof(wanted));
        modify(
            address, [](Allocation& a, uint64_t on) { a.sync_memops = on != 0; }, wanted != 0);
    });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address)
{
    return api(__func__, Needs::context, [&] {
        auto allocation = find(address);
        if (base != nullptr) {
            *base = allocation ? allocation->base : 0;
        }
        if (size != nullptr) {
            *size = allocation ? allocation->size : 0;
        }
        require(allocation.has_value(), CUDA_ERROR_NOT_FOUND);
    });
}
