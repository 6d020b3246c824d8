// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "cuda/ipc_handle.hpp"

#include "cuda/pointer.hpp"

#include <stdexcept>

namespace gdr::cuda {
namespace {

bool reaches_end(const Driver& driver, CUdeviceptr address, size_t length)
{
    const Pointer opened = classify(driver, reinterpret_cast<void*>(address));
    return opened.kind == MemoryKind::device && address <= opened.end() &&
           length <= opened.end() - address;
}

} // namespace

CUdeviceptr open_ipc_handle(const Driver& driver, const CUipcMemHandle& handle, size_t length)
{
    CUdeviceptr address = 0;
    check(driver.cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          "cuIpcOpenMemHandle");
    if (!reaches_end(driver, address, length)) {
        driver.cuIpcCloseMemHandle(address);
        throw std::runtime_error("the memory is shorter than its key says");
    }
    return address;
}

} // namespace gdr::cuda
