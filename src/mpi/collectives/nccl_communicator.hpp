// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A team's NCCL communicator: each rank has one GPU, and no two ranks have the same.
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

// A reduction in NCCL's terms.
struct NcclReduction {
    nccl::Type type;
    nccl::Operation operation;
};

// Nothing if NCCL lacks the reduction: logical and bitwise operations, MINLOC and MAXLOC, complex
// numbers, 16-bit integers.
std::optional<NcclReduction> nccl_reduction(const PredefinedReduction& reduction);

// Makes one call at a time. It does not block in NCCL: while it waits, MPI makes progress, and a
// failure on this rank or reported by another ends the wait.
class NcclCommunicator {
  public:
    // Collective, with the GPUs of the streams. Returns nullptr on all ranks if it is not possible,
    // which is logged once. The team and the library have to outlive it. Throws MpiError,
    // cuda::Error.
    static std::unique_ptr<NcclCommunicator> make(const nccl::Library& nccl, const Team& team,
                                                  const cuda::Driver& driver,
                                                  const ThreadStream& stream);

    NcclCommunicator(const nccl::Library& nccl, const Team& team, const cuda::Driver& driver,
                     const ThreadStream& stream);
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    // Whether this rank can take part in a call on that stream: it belongs to the communicator's
    // GPU, and nothing has failed so far. Throws MpiError.
    bool serves(const ThreadStream& stream);

    // All ranks make the same call, on a stream for which serves() is true. Sizes are in bytes. in
    // and out may be the same except in alltoall(), and must not overlap otherwise. The call is
    // complete on return. They throw nccl::Error, MpiError, cuda::Error; after that the
    // communicator is unusable on all ranks.
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

    // Ends the communicator, in two steps, since other ranks may end other communicators in another
    // order. All ranks call both, also after a failure.
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
    nccl::Communicator* communicator_ = nullptr; // nullptr after a failure
    nccl::Result ending_ = nccl::Result::success;
    CUevent done_ = nullptr;
};

} // namespace gdr::mpi
