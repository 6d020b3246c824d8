// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, opened at run time.
#include "cuda.hpp"

#include <algorithm>
#include <map>

#include <dlfcn.h>
#include <unistd.h>

#include "failure.hpp"

namespace ucptest::cuda {
namespace {

struct Driver {
    decltype(&cuInit) init = nullptr;
    decltype(&cuDeviceGetCount) device_get_count = nullptr;
    decltype(&cuDeviceGet) device_get = nullptr;
    decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain = nullptr;
    decltype(&cuCtxSetCurrent) ctx_set_current = nullptr;
    decltype(&cuMemAlloc) mem_alloc = nullptr;
    decltype(&cuMemAllocManaged) mem_alloc_managed = nullptr;
    decltype(&cuMemAllocAsync) mem_alloc_async = nullptr;
    decltype(&cuMemGetAllocationGranularity) mem_granularity = nullptr;
    decltype(&cuMemCreate) mem_create = nullptr;
    decltype(&cuMemAddressReserve) mem_reserve = nullptr;
    decltype(&cuMemMap) mem_map = nullptr;
    decltype(&cuMemSetAccess) mem_set_access = nullptr;
    decltype(&cuMemUnmap) mem_unmap = nullptr;
    decltype(&cuMemAddressFree) mem_address_free = nullptr;
    decltype(&cuMemRelease) mem_release = nullptr;
    decltype(&cuMemExportToShareableHandle) mem_export = nullptr;
    decltype(&cuMemImportFromShareableHandle) mem_import = nullptr;
    decltype(&cuMemFree) mem_free = nullptr;
    decltype(&cuMemFreeAsync) mem_free_async = nullptr;
    decltype(&cuMemHostAlloc) mem_host_alloc = nullptr;
    decltype(&cuMemFreeHost) mem_free_host = nullptr;
    decltype(&cuPointerGetAttribute) pointer_get_attribute = nullptr;
    decltype(&cuMemGetInfo) mem_get_info = nullptr;
    decltype(&cuMemcpyHtoD) memcpy_htod = nullptr;
    decltype(&cuMemcpyDtoH) memcpy_dtoh = nullptr;
    decltype(&cuCtxSynchronize) ctx_synchronize = nullptr;
    CUdevice device = 0;
    CUcontext context = nullptr;
};

Driver driver;

void require_success(CUresult result, const char* call)
{
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", call, static_cast<int>(result)));
}

template <typename F>
void resolve(void* library, const char* name, F& function)
{
    function = reinterpret_cast<F>(dlsym(library, name));
    require(function != nullptr, format("libcuda.so.1 lacks %s", name));
}

bool open(int ordinal)
{
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        return false;
    }
    // cuda.h renames the calls whose signature changed: the names here are those in the library.
    resolve(library, "cuInit", driver.init);
    resolve(library, "cuDeviceGetCount", driver.device_get_count);
    resolve(library, "cuDeviceGet", driver.device_get);
    resolve(library, "cuDevicePrimaryCtxRetain", driver.primary_ctx_retain);
    resolve(library, "cuCtxSetCurrent", driver.ctx_set_current);
    resolve(library, "cuMemAlloc_v2", driver.mem_alloc);
    resolve(library, "cuMemHostAlloc", driver.mem_host_alloc);
    resolve(library, "cuMemFreeHost", driver.mem_free_host);
    resolve(library, "cuMemAllocManaged", driver.mem_alloc_managed);
    resolve(library, "cuMemAllocAsync", driver.mem_alloc_async);
    resolve(library, "cuMemGetAllocationGranularity", driver.mem_granularity);
    resolve(library, "cuMemCreate", driver.mem_create);
    resolve(library, "cuMemAddressReserve", driver.mem_reserve);
    resolve(library, "cuMemMap", driver.mem_map);
    resolve(library, "cuMemSetAccess", driver.mem_set_access);
    resolve(library, "cuMemUnmap", driver.mem_unmap);
    resolve(library, "cuMemAddressFree", driver.mem_address_free);
    resolve(library, "cuMemRelease", driver.mem_release);
    resolve(library, "cuMemExportToShareableHandle", driver.mem_export);
    resolve(library, "cuMemImportFromShareableHandle", driver.mem_import);
    resolve(library, "cuMemFree_v2", driver.mem_free);
    resolve(library, "cuMemFreeAsync", driver.mem_free_async);
    resolve(library, "cuPointerGetAttribute", driver.pointer_get_attribute);
    resolve(library, "cuMemGetInfo_v2", driver.mem_get_info);
    resolve(library, "cuMemcpyHtoD_v2", driver.memcpy_htod);
    resolve(library, "cuMemcpyDtoH_v2", driver.memcpy_dtoh);
    resolve(library, "cuCtxSynchronize", driver.ctx_synchronize);
    int count = 0;
    if (driver.init(0) != CUDA_SUCCESS || driver.device_get_count(&count) != CUDA_SUCCESS ||
        count == 0) {
        return false;
    }
    require_success(driver.device_get(&driver.device, ordinal % count), "cuDeviceGet");
    require_success(driver.primary_ctx_retain(&driver.context, driver.device),
                    "cuDevicePrimaryCtxRetain");
    return attach_thread();
}

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto kFabric = static_cast<CUmemAllocationHandleType>(8); // named by CUDA 12.3

CUmemAllocationProp mapped_memory(CUmemAllocationHandleType types = kDescriptor)
{
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = driver.device;
    properties.requestedHandleTypes = types;
    properties.allocFlags.gpuDirectRDMACapable = 1;
    return properties;
}

size_t mapping_unit()
{
    const CUmemAllocationProp properties = mapped_memory();
    size_t unit = 0;
    require_success(driver.mem_granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                    "cuMemGetAllocationGranularity");
    return unit;
}

size_t mapped_size(size_t size)
{
    const size_t unit = mapping_unit();
    return (size + unit - 1) / unit * unit;
}

CUmemGenericAllocationHandle create(size_t length, CUmemAllocationHandleType types = kDescriptor)
{
    const CUmemAllocationProp properties = mapped_memory(types);
    CUmemGenericAllocationHandle handle;
    require_success(driver.mem_create(&handle, length, &properties, 0), "cuMemCreate");
    return handle;
}

// The mapping keeps the memory.
void map_and_release(CUdeviceptr address, size_t length, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {};
    access.location = mapped_memory().location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    require_success(driver.mem_map(address, length, 0, handle, 0), "cuMemMap");
    require_success(driver.mem_set_access(address, length, &access, 1), "cuMemSetAccess");
    require_success(driver.mem_release(handle), "cuMemRelease");
}

void map_handle(CUdeviceptr address, size_t length)
{
    map_and_release(address, length, create(length));
}

// The handles that imported memory comes from, by its address.
std::map<CUdeviceptr, CUmemGenericAllocationHandle> exported;

CUdeviceptr reserve(size_t length)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_reserve(&address, length, 0, 0, 0), "cuMemAddressReserve");
    return address;
}

// Where memory in handles side by side begins, before the end of the first of them.
size_t before_boundary(size_t size)
{
    constexpr size_t kAlignment = 8;
    return std::max(std::min(size, mapping_unit()) / 2 / kAlignment * kAlignment, kAlignment);
}

} // namespace

bool available(int ordinal)
{
    static const bool opened = open(ordinal);
    return opened;
}

bool attach_thread()
{
    require_success(driver.ctx_set_current(driver.context), "cuCtxSetCurrent");
    return true;
}

CUdeviceptr allocate(size_t size)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_alloc(&address, size), "cuMemAlloc");
    return address;
}

CUdeviceptr allocate_managed(size_t size)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_alloc_managed(&address, size, CU_MEM_ATTACH_GLOBAL),
                    "cuMemAllocManaged");
    return address;
}

CUdeviceptr allocate_from_pool(size_t size)
{
    CUdeviceptr address = 0;
    require_success(driver.mem_alloc_async(&address, size, CU_STREAM_LEGACY), "cuMemAllocAsync");
    require_success(driver.ctx_synchronize(), "cuCtxSynchronize");
    return address;
}

CUdeviceptr map(size_t size)
{
    const size_t length = mapped_size(size);
    const CUdeviceptr address = reserve(length);
    map_handle(address, length);
    return address;
}

CUdeviceptr map_fabric(size_t size)
{
    const size_t length = mapped_size(size);
    const CUdeviceptr address = reserve(length);
    map_and_release(address, length, create(length, kFabric));
    return address;
}

void unmap(CUdeviceptr address, size_t size)
{
    require_success(driver.mem_unmap(address, mapped_size(size)), "cuMemUnmap");
    require_success(driver.mem_address_free(address, mapped_size(size)), "cuMemAddressFree");
}

CUdeviceptr map_imported(size_t size)
{
    const size_t length = mapped_size(size);
    const CUdeviceptr address = reserve(length);
    const CUmemGenericAllocationHandle handle = create(length);
    CUmemGenericAllocationHandle imported;
    int fd = -1;
    require_success(driver.mem_export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    "cuMemExportToShareableHandle");
    require_success(driver.mem_import(&imported, reinterpret_cast<void*>(intptr_t{fd}),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                    "cuMemImportFromShareableHandle");
    close(fd);
    map_and_release(address, length, imported);
    exported.emplace(address, handle);
    return address;
}

void unmap_imported(CUdeviceptr address, size_t size)
{
    unmap(address, size);
    require_success(driver.mem_release(exported.extract(address).mapped()), "cuMemRelease");
}

CUdeviceptr map_side_by_side(size_t size)
{
    const size_t unit = mapping_unit();
    const size_t length = unit + mapped_size(size);
    const CUdeviceptr range = reserve(length);
    for (size_t offset = 0; offset < length; offset += unit) {
        map_handle(range + offset, unit);
    }
    return range + unit - before_boundary(size);
}

void unmap_side_by_side(CUdeviceptr address, size_t size)
{
    const size_t unit = mapping_unit();
    const size_t length = unit + mapped_size(size);
    const CUdeviceptr range = address + before_boundary(size) - unit;
    for (size_t offset = 0; offset < length; offset += unit) {
        require_success(driver.mem_unmap(range + offset, unit), "cuMemUnmap");
    }
    require_success(driver.mem_address_free(range, length), "cuMemAddressFree");
}

void release(CUdeviceptr address)
{
    require_success(driver.mem_free(address), "cuMemFree");
}

void release_to_pool(CUdeviceptr address)
{
    require_success(driver.mem_free_async(address, CU_STREAM_LEGACY), "cuMemFreeAsync");
    require_success(driver.ctx_synchronize(), "cuCtxSynchronize");
}

void* allocate_pinned(size_t size)
{
    void* address = nullptr;
    require_success(driver.mem_host_alloc(&address, size, 0), "cuMemHostAlloc");
    return address;
}

void release_pinned(void* address)
{
    require_success(driver.mem_free_host(address), "cuMemFreeHost");
}

bool is_pinned(const void* address)
{
    unsigned type = 0;
    return driver.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

size_t free_memory()
{
    size_t free = 0, total = 0;
    require_success(driver.mem_get_info(&free, &total), "cuMemGetInfo");
    return free;
}

void copy_in(CUdeviceptr target, const void* source, size_t size)
{
    require_success(driver.memcpy_htod(target, source, size), "cuMemcpyHtoD");
    // From pageable memory cuMemcpyHtoD may return before the last byte has reached the device.
    require_success(driver.ctx_synchronize(), "cuCtxSynchronize");
}

void copy_out(void* target, CUdeviceptr source, size_t size)
{
    require_success(driver.memcpy_dtoh(target, source, size), "cuMemcpyDtoH");
}

} // namespace ucptest::cuda
