// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Host memory that replaces a GPU's while MPI's CPU works on it. It is pinned, so that copies run
// at the link's speed, and kept for the next call, also because it is registered with the HCA by
// then.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>

namespace gdr::mpi {

// Each thread keeps at most this much unused memory.
inline constexpr size_t kKeptBytes = size_t{256} << 20;

class StagingMemory {
  public:
    StagingMemory() = default;

    // At least `length` bytes, aligned to 64, from what the thread has kept if possible. If memory
    // cannot be pinned it is pageable, which is logged once. Only new memory calls CUDA. Throws
    // std::bad_alloc; cuda::Error if the GPU has no context.
    StagingMemory(const cuda::Driver& driver, CUdevice device, size_t length);

    StagingMemory(StagingMemory&& other) noexcept;
    StagingMemory& operator=(StagingMemory&& other) noexcept;
    ~StagingMemory(); // the calling thread keeps it

    char* data() const { return data_; }

    // Whether it is pinned, and kernels access it at the same address.
    bool mapped() const { return mapped_; }

  private:
    friend class KeptMemory;

    char* data_ = nullptr;
    size_t length_ = 0; // a power of two
    bool pinned_ = false;
    bool mapped_ = false;
};

} // namespace gdr::mpi
