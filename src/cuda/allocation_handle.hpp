// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of cuMemCreate as other processes get it: by a file descriptor, and mapped from one. Any
// thread, whatever it has as current context.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"

#include <cstddef>

namespace gdr::cuda {

// The allocation behind a mapped address, held.
class AllocationHandle {
  public:
    AllocationHandle(const Driver& driver, CUdeviceptr address); // throws Error
    AllocationHandle(const AllocationHandle&) = delete;
    AllocationHandle& operator=(const AllocationHandle&) = delete;
    ~AllocationHandle() { driver_.cuMemRelease(handle_); }

    // Whether the application asked for POSIX file descriptors when it made the memory.
    bool has_descriptor() const;

    // A new one. Throws Error.
    UniqueFd descriptor() const;

  private:
    const Driver& driver_;
    CUmemGenericAllocationHandle handle_ = 0;
};

// The first length bytes of the memory behind a descriptor, mapped for one GPU. Throws Error.
CUdeviceptr map_descriptor(const Driver& driver, int descriptor, size_t length, CUdevice device);

// What map_descriptor() returned, with the same length.
void unmap(const Driver& driver, CUdeviceptr address, size_t length);

} // namespace gdr::cuda
