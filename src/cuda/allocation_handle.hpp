// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of cuMemCreate as other processes get it: by a file descriptor or by a fabric handle, and
// mapped from one. Any thread, whatever it has as current context.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"

#include <cstddef>

namespace gdr::cuda {

// Bytes that any process of the same IMEX domain may import, on this host or another: CUDA 12.3's
// CUmemFabricHandle.
struct FabricHandle {
    char data[64];
};

// The allocation behind a mapped address, held.
class AllocationHandle {
  public:
    AllocationHandle(const Driver& driver, CUdeviceptr address); // throws Error
    AllocationHandle(const AllocationHandle&) = delete;
    AllocationHandle& operator=(const AllocationHandle&) = delete;
    ~AllocationHandle() { driver_.cuMemRelease(handle_); }

    // Which of the two the application asked for when it made the memory.
    bool has_descriptor() const;
    bool has_fabric() const;

    // A new descriptor. Throws Error.
    UniqueFd descriptor() const;
    // Throws Error: where this process may use no IMEX channel, for one.
    FabricHandle fabric() const;

  private:
    bool has(CUmemAllocationHandleType type) const;

    const Driver& driver_;
    CUmemGenericAllocationHandle handle_ = 0;
};

// The first length bytes of the memory behind one of them, mapped for one GPU. Throws Error.
CUdeviceptr map_descriptor(const Driver& driver, int descriptor, size_t length, CUdevice device);
CUdeviceptr map_fabric(const Driver& driver, FabricHandle fabric, size_t length, CUdevice device);

// What map_descriptor() or map_fabric() returned, with the same length.
void unmap(const Driver& driver, CUdeviceptr address, size_t length);

} // namespace gdr::cuda
