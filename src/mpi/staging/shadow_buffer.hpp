// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer on a GPU. Its shadow buffer for one MPI call is host memory that is laid out like the
// buffer.
#pragma once

#include "cuda/pointer.hpp"
#include "mpi/gpu/device_copies.hpp"
#include "mpi/gpu/gpu_packing.hpp"
#include "mpi/interface/footprint.hpp"
#include "mpi/staging/staging_memory.hpp"

#include <vector>

namespace gdr::mpi {

class ShadowBuffer {
  public:
    // footprint: not empty, on the GPU, relative to the buffer's address. Throws cuda::Error,
    // std::bad_alloc.
    ShadowBuffer(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                 Footprint&& footprint);

    // What MPI gets as the buffer's address.
    Word address() const { return reinterpret_cast<Word>(origin()); }

    // All bytes of the footprint, and no others. fetch() is complete once the copies have ended.
    // Throw cuda::Error.
    void fetch(RowCopies& copies) const;
    void put_back() const;

    // The first bytes in MPI's packing order.
    void put_back_first(uint64_t bytes) const;

    // A part of the footprint, relative to the buffer's address.
    void fetch(const Footprint& part) const { copy(part, Direction::from_device); }
    void put_back(const Footprint& part) const { copy(part, Direction::to_device); }

  private:
    char* origin() const { return memory_.data() - footprint_.low(); }
    bool packed(void (ShadowBuffer::*all)() const) const;
    void fetch_packed() const;
    void put_back_packed() const;
    StagingMemory room_for(const GpuPacking& packing) const;
    void issue(RowCopies& copies, const Footprint& part) const;
    void copy(const Footprint& part, Direction direction) const;

    const cuda::Driver* driver_;
    CUdevice device_;
    void* buffer_;
    Footprint footprint_;
    std::vector<GpuPacking> packings_; // one for each part; empty: copies, one for each run
    StagingMemory memory_;
};

} // namespace gdr::mpi
