// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Exports memory of cuMemCreate to other processes by a file descriptor or a fabric handle, and
// maps memory from either. Any thread, whatever its current context.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"

#include <cstddef>

namespace gdr::cuda {

// CUDA 12.3's CUmemFabricHandle: bytes that any process of the same IMEX domain can import, on this
// host or another.
struct FabricHandle {
    char data[64];
};

// Holds a reference to the allocation behind a mapped address.
class AllocationHandle {
  public:
    AllocationHandle(const Driver& driver, CUdeviceptr address); // throws Error
    AllocationHandle(const AllocationHandle&) = delete;
    AllocationHandle& operator=(const AllocationHandle&) = delete;
    ~AllocationHandle() { driver_.cuMemRelease(handle_); }

    // Handle types that the application requested when it created the memory.
    bool has_descriptor() const;
    bool has_fabric() const;

    // Returns a new descriptor. Throws Error.
    UniqueFd descriptor() const;
    // Throws Error, for example if this process may not use an IMEX channel.
    FabricHandle fabric() const;

  private:
    bool has(CUmemAllocationHandleType type) const;

    const Driver& driver_;
    CUmemGenericAllocationHandle handle_ = 0;
};

// Maps the first length bytes of the memory behind a descriptor or a handle for one GPU. Throws
// Error.
CUdeviceptr map_descriptor(const Driver& driver, int descriptor, size_t length, CUdevice device);
CUdeviceptr map_fabric(const Driver& driver, FabricHandle fabric, size_t length, CUdevice device);

// Unmaps what map_descriptor() or map_fabric() returned for the same length.
void unmap(const Driver& driver, CUdeviceptr address, size_t length);

} // namespace gdr::cuda
