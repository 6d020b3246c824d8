// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer that lies in several memories, or is mostly gaps. Its shadow buffer for one MPI call is
// host memory that holds its bytes contiguously.
#pragma once

#include "mpi/gpu/device_copies.hpp"
#include "mpi/staging/packed_arguments.hpp"
#include "mpi/staging/pieces.hpp"
#include "mpi/staging/staging_memory.hpp"

#include <vector>

namespace gdr::mpi {

class GatheredShadow {
  public:
    // Replaces the side in the arguments. pieces: those of its footprint, some on a GPU. Throws
    // cuda::Error, std::bad_alloc; std::runtime_error as PackedArguments.
    GatheredShadow(const cuda::Driver& driver, const Arguments& arguments, const Group& group,
                   const Side& side, std::vector<Piece> pieces);

    // All bytes of the pieces, and no others. fetch() is complete once the copies have ended. Throw
    // cuda::Error.
    void fetch(RowCopies& copies) const { copy(copies); }
    void put_back() const;

  private:
    void copy(RowCopies& copies) const;
    template <typename Use>
    void for_each_piece_in(CUdevice device, Use use) const;
    void copy_on(CUdevice device, RowCopies& copies) const;
    void copy_by_cpu(Direction direction) const;

    const cuda::Driver* driver_;
    char* buffer_;
    std::vector<Piece> pieces_;
    std::vector<CUdevice> devices_; // of the pieces
    StagingMemory memory_;
    PackedArguments told_;
};

} // namespace gdr::mpi
