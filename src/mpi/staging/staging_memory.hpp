// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Host memory that stands in for a GPU's while MPI's CPU works on it: pinned, so that copies run at
// the link's speed, and kept for the next call, also because the HCA has it registered by then.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>

namespace gdr::mpi {

// At most so much is kept while nobody uses it, for each thread.
inline constexpr size_t kKeptBytes = size_t{256} << 20;

class StagingMemory {
  public:
    StagingMemory() = default;

    // At least so many bytes, aligned to 64; from what the thread has kept, if it can. Where
    // memory cannot be pinned it is pageable, which is said once in UCX's log. CUDA is called for
    // new memory alone. Throws std::bad_alloc; cuda::Error where the GPU has no context.
    StagingMemory(const cuda::Driver& driver, CUdevice device, size_t length);

    StagingMemory(StagingMemory&& other) noexcept;
    StagingMemory& operator=(StagingMemory&& other) noexcept;
    ~StagingMemory(); // the calling thread keeps it

    char* data() const { return data_; }

    // Whether it is pinned, and GPUs' kernels have it at the same address.
    bool mapped() const { return mapped_; }

  private:
    friend class KeptMemory;

    char* data_ = nullptr;
    size_t length_ = 0; // a power of two
    bool pinned_ = false;
    bool mapped_ = false;
};

} // namespace gdr::mpi
