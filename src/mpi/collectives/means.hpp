// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// By what means the ranks of a communicator can make collective calls on their GPUs: agreed upon in
// the first such call.
#pragma once

#include "mpi/collectives/nccl_communicator.hpp"
#include "mpi/collectives/team.hpp"

#include <memory>

namespace gdr::mpi {

class Means {
  public:
    // Those of an intra-communicator. The first call for a communicator is collective: what this
    // process can do in principle is compared with what the others can. They end with the
    // communicator, NCCL's at the latest as MPI_Finalize begins. with_nccl: if there is one. Throws
    // MpiError; the library has called the communicator's error handler.
    static Means& of(const Library& library, Word comm, bool with_nccl);

    const Team& team() const { return team_; }

    // The same answers on all ranks. Messages between GPUs, and kernels.
    bool ring() const { return ring_; }
    // The same NCCL everywhere, that has not refused, and whether it blocks.
    bool nccl() const { return nccl_ != nullptr; }
    bool nccl_blocks() const { return nccl_->blocks; }

    // Whether this rank can take part in a call of NCCL's on that stream. Throws MpiError.
    bool nccl_serves(const ThreadStream& stream);

    // Collective, with streams that it serves. nullptr on all ranks where it cannot be made: nccl()
    // is false from then on. Throws MpiError, cuda::Error.
    NcclCommunicator* communicator(const cuda::Driver& driver, const ThreadStream& stream);

    Means(const Library& library, Word comm, bool with_nccl);
    Means(const Means&) = delete;
    Means& operator=(const Means&) = delete;

    // Collective. Of NCCL's communicator; then all of it.
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
