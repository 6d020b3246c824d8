// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The driver calls for each way of sharing.
#include "ipc/opening.hpp"

#include "cuda/allocation_handle.hpp"
#include "cuda/ipc_handle.hpp"
#include "ipc/descriptor_server.hpp"

#include <bit>

namespace gdr::ipc {

CUdeviceptr open(const cuda::Driver& driver, const RemoteKey& key, CUdevice device)
{
    if (key.sharing == Sharing::handle) {
        return cuda::open_ipc_handle(driver, key.handle, key.length);
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
