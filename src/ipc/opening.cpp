// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The driver calls for each way of sharing.
#include "ipc/opening.hpp"

#include "cuda/allocation_handle.hpp"
#include "cuda/pointer.hpp"
#include "ipc/descriptor_server.hpp"

#include <bit>
#include <stdexcept>

namespace gdr::ipc {

namespace {

// cuMemMap() refuses a length beyond the allocation, but an IPC handle does not say how long the
// memory behind it is.
bool reaches_end(const cuda::Driver& driver, CUdeviceptr address, uint64_t length)
{
    const cuda::Pointer opened = cuda::classify(driver, reinterpret_cast<void*>(address));
    return opened.kind == cuda::MemoryKind::device && address <= opened.end() &&
           length <= opened.end() - address;
}

} // namespace

CUdeviceptr open(const cuda::Driver& driver, const RemoteKey& key, CUdevice device)
{
    if (key.sharing == Sharing::handle) {
        CUdeviceptr address = 0;
        cuda::check(
            driver.cuIpcOpenMemHandle(&address, key.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            "cuIpcOpenMemHandle");
        if (reaches_end(driver, address, key.length)) {
            return address;
        }
        driver.cuIpcCloseMemHandle(address);
        throw std::runtime_error("the memory is shorter than its key says");
    }
    if (key.sharing == Sharing::fabric) {
        return cuda::map_fabric(driver, std::bit_cast<cuda::FabricHandle>(key.handle), key.length,
                                device);
    }
    const cuda::UniqueFd descriptor = ask_for_descriptor(key);
    return cuda::map_descriptor(driver, descriptor.get(), key.length, device);
}

void close(const cuda::Driver& driver, const RemoteKey& key, CUdeviceptr address)
{
    if (key.sharing == Sharing::handle) {
        driver.cuIpcCloseMemHandle(address);
    } else {
        cuda::unmap(driver, address, key.length);
    }
}

} // namespace gdr::ipc
