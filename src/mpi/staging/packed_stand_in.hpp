// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer on a GPU whose bytes are not in one piece, with memory that stands in for it in one call
// of MPI and has them without the gaps. MPI is given a type of as many bytes as the user's, so that
// counts, sizes of messages, and what a collective does with them, are the same.
#pragma once

#include "mpi/gpu/device_scratch.hpp"
#include "mpi/gpu/gpu_packing.hpp"
#include "mpi/library/byte_type.hpp"
#include "mpi/staging/device_copies.hpp"
#include "mpi/staging/staging_memory.hpp"

namespace gdr::mpi {

class PackedStandIn {
  public:
    // by_hca: the HCA alone reads or writes the stand-in, which can be on the GPU, then. Throws
    // cuda::Error, std::bad_alloc.
    PackedStandIn(const Library& library, const cuda::Driver& driver, GpuPacking packing,
                  bool by_hca);

    // What MPI gets as the buffer's address and type.
    Word address() const;
    Word type() const { return type_.handle(); }

    // All bytes of the elements, and no others. Throw cuda::Error.
    void fetch(RowCopies&) const;
    void put_back() const;

  private:
    void count_bytes() const;

    GpuPacking packing_;
    StagingMemory on_host_; // one of the two, with nullptr for the other
    DeviceScratch on_gpu_;
    ByteType type_;
};

} // namespace gdr::mpi
