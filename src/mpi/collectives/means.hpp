// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The means by which the ranks of a communicator can make collective calls on their GPUs. They are
// agreed upon in the first such call.
#pragma once

#include "mpi/collectives/nccl_communicator.hpp"
#include "mpi/collectives/team.hpp"

#include <memory>

namespace gdr::mpi {

class Means {
  public:
    // The means of an intra-communicator. The first call for a communicator is collective: it
    // compares what the processes can do. The means end with the communicator; those of NCCL end
    // when MPI_Finalize begins, at the latest. with_nccl: use NCCL if there is one. Throws
    // MpiError; the library has called the communicator's error handler.
    static Means& of(const Library& library, Word comm, bool with_nccl);

    const Team& team() const { return team_; }

    // These answers are the same on all ranks. ring(): messages between GPUs, and kernels.
    bool ring() const { return ring_; }
    // All ranks have the same NCCL, which has not refused. nccl_blocks(): whether it blocks.
    bool nccl() const { return nccl_ != nullptr; }
    bool nccl_blocks() const { return nccl_->blocks; }

    // Whether this rank can take part in an NCCL call on that stream. Throws MpiError.
    bool nccl_serves(const ThreadStream& stream);

    // Collective, on streams for which nccl_serves() is true. Returns nullptr on all ranks if the
    // communicator cannot be made; nccl() is false from then on. Throws MpiError, cuda::Error.
    NcclCommunicator* communicator(const cuda::Driver& driver, const ThreadStream& stream);

    Means(const Library& library, Word comm, bool with_nccl);
    Means(const Means&) = delete;
    Means& operator=(const Means&) = delete;

    // Collective. The first two end NCCL's communicator, end() ends everything.
    void begin_nccl_end();
    void finish_nccl_end();
    void end();

  private:
    template <class Work>
    bool in_context(Work work);

    Team team_;
    bool ring_ = false;
    const nccl::Library* nccl_ = nullptr;
    CUdevice device_ = -1; // of the communicator
    std::unique_ptr<NcclCommunicator> communicator_;
};

} // namespace gdr::mpi
