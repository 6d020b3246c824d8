// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer on a GPU whose bytes are not in one piece, with memory that stands in for it in one call
// of MPI and has them without the gaps.
#pragma once

#include "mpi/gpu/device_copies.hpp"
#include "mpi/gpu/device_scratch.hpp"
#include "mpi/gpu/gpu_packing.hpp"
#include "mpi/staging/staging_memory.hpp"

#include <optional>

namespace gdr::mpi {

class PackedStandIn {
  public:
    // footprint: of one part, relative to the buffer. by_hca: the HCA alone reads or writes the
    // stand-in, which can be on the GPU, then. Throws cuda::Error, std::bad_alloc.
    PackedStandIn(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                  Footprint&& footprint, bool by_hca);

    // What MPI gets as the buffer's address.
    Word address() const;

    // All bytes of the elements, and no others, or the first. Throw cuda::Error. fetch(): once the
    // copies have ended.
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
    StagingMemory on_host_; // one of the two, with nullptr for the other
    DeviceScratch on_gpu_;
    std::optional<GpuPacking> packing_; // by kernels; else copies of rows
};

} // namespace gdr::mpi
