// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an address belongs to, and memory of other processes.
#include "emu/softcudart/runtime_api.hpp"

#include <cstring>

using namespace softcudart;

namespace {

/// `type` is 0 for memory that the driver does not know.
cudaMemoryType memory_type(unsigned type, bool managed)
{
    if (managed) {
        return cudaMemoryTypeManaged;
    }
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
        return cudaMemoryTypeDevice;
    default:
        return cudaMemoryTypeUnregistered;
    }
}

} // namespace

// The members that all versions of the structure have; CUDA 13's reserved ones are left alone.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer)
{
    return api(__func__, Needs::context, [&] {
        require(attributes != nullptr);
        unsigned type = 0, managed = 0;
        int device = 0;
        CUpointer_attribute wanted[] = {
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            CU_POINTER_ATTRIBUTE_HOST_POINTER};
        void* answers[] = {&type, &managed, &device, &attributes->devicePointer,
                           &attributes->hostPointer};
        check(cuPointerGetAttributes(5, wanted, answers, as_address(pointer)));
        attributes->type = memory_type(type, managed != 0);
        attributes->device = device;
    });
}

// ---- IPC

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer)
{
    return api(__func__, Needs::context, [&] {
        require(handle != nullptr);
        CUipcMemHandle own{};
        check(cuIpcGetMemHandle(&own, as_address(pointer)));
        std::memcpy(handle, &own, sizeof(own));
    });
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        CUipcMemHandle own{};
        std::memcpy(&own, &handle, sizeof(own));
        CUdeviceptr address = 0;
        check(cuIpcOpenMemHandle(&address, own, flags));
        *pointer = reinterpret_cast<void*>(address);
    });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer)
{
    return api(__func__, Needs::context, [&] { return cuIpcCloseMemHandle(as_address(pointer)); });
}
