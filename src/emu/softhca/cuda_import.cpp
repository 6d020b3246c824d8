// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opening other processes' device memory, see cuda_import.hpp.
#include "emu/softhca/cuda_import.hpp"

#include "emu/softhca/cuda_copy.hpp"

#include <cstring>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace softhca {
namespace {

// The device that another process means; -1 if this one cannot see it.
int find_device(const CudaMemory& memory)
{
    const CudaDriver& driver = *cuda_driver();
    int count = 0;
    driver.cuDeviceGetCount(&count);
    for (int device = 0; device < count; ++device) {
        CUuuid uuid;
        if (driver.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS &&
            std::memcmp(&uuid, memory.uuid, sizeof memory.uuid) == 0) {
            return device;
        }
    }
    return -1;
}

// A descriptor of another process, as one of this; -1 with errno.
int take_fd(int pid, int fd)
{
    const long process = syscall(SYS_pidfd_open, pid, 0);
    if (process < 0) {
        return -1;
    }
    const long taken = syscall(SYS_pidfd_getfd, process, fd, 0);
    close(static_cast<int>(process));
    return static_cast<int>(taken);
}

} // namespace

std::optional<LocalAddress> CudaImports::find(const Segment& segment, int owner_pid)
{
    const CudaMemory& memory = segment.region->cuda;
    if (memory.sharing == CudaSharing::none || cuda_driver() == nullptr) {
        return std::nullopt;
    }
    const RelaxedCapture relaxed(*cuda_driver());
    const Key key{memory.owner, memory.buffer_id, memory.base};
    auto entry = imports_.find(key);
    if (entry == imports_.end()) {
        const auto opened = open(memory, owner_pid);
        if (!opened) {
            return std::nullopt;
        }
        opened_ = true;
        entry = imports_.emplace(key, *opened).first;
    }
    Import& import = entry->second;
    import.region = segment.region;
    import.key = segment.region->key.load(std::memory_order_relaxed);
    return LocalAddress{import.at.address + (segment.address - memory.base), import.at.device};
}

std::optional<CudaImports::Import> CudaImports::open(const CudaMemory& memory, int owner_pid)
{
    const int device = find_device(memory);
    const CUcontext context = device < 0 ? nullptr : copy_context(device);
    if (context == nullptr) {
        return std::nullopt;
    }
    const CurrentContext current(*cuda_driver(), context);
    return memory.sharing == CudaSharing::ipc ? open_ipc(memory, device)
                                              : map_handle(memory, device, owner_pid);
}

std::optional<CudaImports::Import> CudaImports::open_ipc(const CudaMemory& memory, int device)
{
    const CudaDriver& driver = *cuda_driver();
    CUipcMemHandle handle;
    std::memcpy(&handle, memory.ipc_handle, sizeof handle);
    CUdeviceptr address = 0;
    if (driver.cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_SUCCESS) {
        refused_ = true;
        return std::nullopt;
    }
    return Import{{address, device}, memory.length, CudaSharing::ipc, 0, nullptr, 0};
}

std::optional<CudaImports::Import> CudaImports::map_handle(const CudaMemory& memory, int device,
                                                           int owner_pid)
{
    const CudaDriver& driver = *cuda_driver();
    const int fd = take_fd(owner_pid, memory.fd);
    if (fd < 0) {
        return std::nullopt;
    }
    CUmemGenericAllocationHandle handle;
    const bool imported = driver.cuMemImportFromShareableHandle(
                              &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS;
    close(fd);
    if (!imported) {
        return std::nullopt;
    }
    CUdeviceptr address = 0;
    if (driver.cuMemAddressReserve(&address, memory.length, 0, 0, 0) == CUDA_SUCCESS) {
        CUmemAccessDesc access = {};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = device;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (driver.cuMemMap(address, memory.length, 0, handle, 0) == CUDA_SUCCESS) {
            if (driver.cuMemSetAccess(address, memory.length, &access, 1) == CUDA_SUCCESS) {
                return Import{
                    {address, device}, memory.length, CudaSharing::handle, handle, nullptr, 0};
            }
            driver.cuMemUnmap(address, memory.length);
        }
        driver.cuMemAddressFree(address, memory.length);
    }
    driver.cuMemRelease(handle);
    return std::nullopt;
}

void CudaImports::drop_stale()
{
    if (std::exchange(opened_, false)) {
        drop_stale(CudaSharing::handle);
    }
    if (std::exchange(refused_, false)) {
        drop_stale(CudaSharing::ipc);
    }
}

void CudaImports::drop_stale(CudaSharing sharing)
{
    const CudaDriver& driver = *cuda_driver();
    const RelaxedCapture relaxed(driver);
    std::erase_if(imports_, [&](const auto& entry) {
        const Import& import = entry.second;
        if (import.sharing != sharing ||
            import.region->key.load(std::memory_order_relaxed) == import.key) {
            return false;
        }
        if (sharing == CudaSharing::ipc) {
            const CurrentContext current(driver, copy_context(import.at.device));
            driver.cuIpcCloseMemHandle(import.at.address);
        } else {
            driver.cuMemUnmap(import.at.address, import.length);
            driver.cuMemAddressFree(import.at.address, import.length);
            driver.cuMemRelease(import.handle);
        }
        return true;
    });
}

} // namespace softhca
