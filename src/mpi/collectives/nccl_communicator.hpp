// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// NCCL's communicator of a team: one GPU of each rank, and no two ranks' the same.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/collectives/blocks_of_ranks.hpp"
#include "mpi/collectives/failure_notices.hpp"
#include "mpi/collectives/predefined_reductions.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/nccl/library.hpp"

#include <memory>
#include <optional>

namespace gdr::mpi {

// A reduction as NCCL has it.
struct NcclReduction {
    nccl::Type type;
    nccl::Operation operation;
};

// Nothing where NCCL has none: logical and bitwise operations, MINLOC and MAXLOC, complex numbers,
// integers of 16 bits.
std::optional<NcclReduction> nccl_reduction(const PredefinedReduction& reduction);

// One call at a time. It does not block in NCCL: while it waits MPI makes progress, and failures,
// its own and those that others tell of, end it.
class NcclCommunicator {
  public:
    // Collective, with the GPUs of the streams; nullptr on all ranks, said once in UCX's log, where
    // it is not possible. The team and the library have to outlive it. Throws MpiError,
    // cuda::Error.
    static std::unique_ptr<NcclCommunicator> make(const nccl::Library& nccl, const Team& team,
                                                  const cuda::Driver& driver,
                                                  const ThreadStream& stream);

    NcclCommunicator(const nccl::Library& nccl, const Team& team, const cuda::Driver& driver,
                     const ThreadStream& stream);
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    // Whether this rank can take part in a call on that stream: it is that of the communicator's
    // GPU, and nothing has failed so far. Throws MpiError.
    bool serves(const ThreadStream& stream);

    // All ranks call the same one, on a stream that it serves. Bytes; in and out may be the same,
    // but for alltoall(), and do not overlap otherwise. When they return it is done. They throw
    // nccl::Error, MpiError, cuda::Error, and then the communicator is of no more use on any rank.
    void allgather(const ThreadStream& stream, const char* mine, char* all, uint64_t each);
    void allreduce(const ThreadStream& stream, NcclReduction reduction, const char* in, char* out,
                   uint64_t bytes, uint64_t element);
    void alltoall(const ThreadStream& stream, const char* in, char* out, uint64_t each);
    void broadcast(const ThreadStream& stream, char* data, uint64_t bytes, int root);
    void reduce(const ThreadStream& stream, NcclReduction reduction, const char* in, char* out,
                uint64_t bytes, uint64_t element, int root);
    // out: this rank's block.
    void reduce_scatter(const ThreadStream& stream, NcclReduction reduction, const char* in,
                        char* out, const BlocksOfRanks& blocks, uint64_t element);

    // Its end, in two parts, since other communicators' ends may be told in another order on other
    // ranks: all ranks call both. It may have failed.
    void begin_end();
    void finish_end();

  private:
    bool start(const nccl::UniqueId& id);
    template <class Issue>
    void run(const ThreadStream& stream, const char* function, Issue issue);
    void settle(nccl::Result result, const char* function);
    nccl::Result state(const char* function);
    void wait(const ThreadStream& stream, const char* function);
    void abort() noexcept;

    const nccl::Library& nccl_;
    const Team& team_;
    const cuda::Driver& driver_;
    const CUdevice device_;
    const CUcontext context_;
    const unsigned long long context_id_;
    FailureNotices notices_;
    nccl::Communicator* communicator_ = nullptr; // not after a failure
    nccl::Result ending_ = nccl::Result::success;
    CUevent done_ = nullptr;
};

} // namespace gdr::mpi
