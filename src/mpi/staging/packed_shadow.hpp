// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer on a GPU that is not contiguous. Its shadow buffer for one MPI call holds its bytes
// without the gaps.
#pragma once

#include "mpi/gpu/device_copies.hpp"
#include "mpi/gpu/device_scratch.hpp"
#include "mpi/gpu/gpu_packing.hpp"
#include "mpi/staging/staging_memory.hpp"

#include <optional>

namespace gdr::mpi {

class PackedShadow {
  public:
    // footprint: of one part, relative to the buffer. by_hca: only the HCA reads or writes the
    // shadow buffer, so it can be on the GPU. Throws cuda::Error, std::bad_alloc.
    PackedShadow(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                 Footprint&& footprint, bool by_hca);

    // What MPI gets as the buffer's address.
    Word address() const;

    // All bytes of the elements, and no others, or the first ones. fetch() is complete once the
    // copies have ended. Throw cuda::Error.
    void fetch(RowCopies& copies) const;
    void put_back() const { put_back_first(footprint_.bytes()); }
    void put_back_first(uint64_t bytes) const;

  private:
    void issue(RowCopies& copies, const Footprint& first) const;
    void count(uint64_t bytes) const;

    const cuda::Driver* driver_;
    CUdevice device_;
    void* buffer_;
    Footprint footprint_;
    StagingMemory on_host_; // one of the two; the other has no memory
    DeviceScratch on_gpu_;
    std::optional<GpuPacking> packing_; // by kernels; empty: copies of rows
};

} // namespace gdr::mpi
