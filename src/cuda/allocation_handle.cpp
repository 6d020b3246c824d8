// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Export and import of allocations. A mapping that fails half-way is undone.
#include "cuda/allocation_handle.hpp"

namespace gdr::cuda {

namespace {

constexpr auto kFabric = static_cast<CUmemAllocationHandleType>(8); // CUDA 12.3 named it

CUdeviceptr map_shared(const Driver& driver, void* shared, CUmemAllocationHandleType type,
                       size_t length, CUdevice device)
{
    CUmemGenericAllocationHandle handle = 0;
    check(driver.cuMemImportFromShareableHandle(&handle, shared, type),
          "cuMemImportFromShareableHandle");
    CUdeviceptr address = 0;
    const char* step = "cuMemAddressReserve";
    CUresult result = driver.cuMemAddressReserve(&address, length, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
        step = "cuMemMap";
        result = driver.cuMemMap(address, length, 0, handle, 0);
        if (result == CUDA_SUCCESS) {
            step = "cuMemSetAccess";
            CUmemAccessDesc access{};
            access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            result = driver.cuMemSetAccess(address, length, &access, 1);
            if (result != CUDA_SUCCESS) {
                driver.cuMemUnmap(address, length);
            }
        }
        if (result != CUDA_SUCCESS) {
            driver.cuMemAddressFree(address, length);
        }
    }
    driver.cuMemRelease(handle); // the mapping keeps the memory
    check(result, step);
    return address;
}

} // namespace

AllocationHandle::AllocationHandle(const Driver& driver, CUdeviceptr address) : driver_(driver)
{
    check(driver.cuMemRetainAllocationHandle(&handle_, reinterpret_cast<void*>(address)),
          "cuMemRetainAllocationHandle");
}

bool AllocationHandle::has(CUmemAllocationHandleType type) const
{
    CUmemAllocationProp properties{};
    return driver_.cuMemGetAllocationPropertiesFromHandle(&properties, handle_) == CUDA_SUCCESS &&
           (properties.requestedHandleTypes & type) != 0;
}

bool AllocationHandle::has_descriptor() const
{
    return has(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

bool AllocationHandle::has_fabric() const
{
    return has(kFabric);
}

UniqueFd AllocationHandle::descriptor() const
{
    int fd = -1;
    check(driver_.cuMemExportToShareableHandle(&fd, handle_,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          "cuMemExportToShareableHandle");
    return UniqueFd(fd);
}

FabricHandle AllocationHandle::fabric() const
{
    FabricHandle fabric{};
    check(driver_.cuMemExportToShareableHandle(&fabric, handle_, kFabric, 0),
          "cuMemExportToShareableHandle(fabric)");
    return fabric;
}

CUdeviceptr map_descriptor(const Driver& driver, int descriptor, size_t length, CUdevice device)
{
    return map_shared(driver, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, length, device);
}

CUdeviceptr map_fabric(const Driver& driver, FabricHandle fabric, size_t length, CUdevice device)
{
    return map_shared(driver, &fabric, kFabric, length, device);
}

void unmap(const Driver& driver, CUdeviceptr address, size_t length)
{
    if (driver.cuMemUnmap(address, length) == CUDA_SUCCESS) {
        driver.cuMemAddressFree(address, length);
    }
}

} // namespace gdr::cuda
