// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collective algorithms between GPUs: messages between neighbours in a ring, by which each rank
// sends and receives no more bytes than any algorithm has to, in pieces, so that one is reduced or
// passed on while the next arrives. All buffers are on the GPU of the stream.
#pragma once

#include "cuda/driver.hpp"
#include "kernels/reduction.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/gpu/thread_stream.hpp"

#include <cstdint>
#include <vector>

namespace gdr::mpi {

// Bytes of a buffer that belong to each rank, one rank's behind the other's.
class BlocksOfRanks {
  public:
    void add(uint64_t bytes) { ends_.push_back(all() + bytes); }
    uint64_t all() const { return ends_.empty() ? 0 : ends_.back(); }
    uint64_t begin(int rank) const { return rank == 0 ? 0 : ends_[rank - 1]; }
    uint64_t length(int rank) const { return ends_[rank] - begin(rank); }
    uint64_t longest() const;

  private:
    std::vector<uint64_t> ends_;
};

class Ring {
  public:
    // All have to outlive it.
    Ring(const Team& team, const cuda::Driver& driver, const ThreadStream& stream)
        : team_(team), driver_(driver), stream_(stream)
    {
    }

    // Scratch that reduce_scatter() needs, in bytes.
    static uint64_t scratch_for(const BlocksOfRanks& blocks) { return 2 * blocks.longest(); }

    // The sum (or whatever the reduction makes) of all ranks' block of this rank, at `result`:
    // where that is in `in`, or nowhere in it. element: bytes. All functions: throw MpiError,
    // cuda::Error, and leave messages under way, then.
    void reduce_scatter(const kernels::Reduction& reduction, uint64_t element,
                        const BlocksOfRanks& blocks, const char* in, char* result,
                        char* scratch) const;

    // Each rank has its own block there before, and all afterwards.
    void allgather(const BlocksOfRanks& blocks, char* all) const;

    // The root receives the others' blocks; these send theirs, which are at `mine`.
    void gather(const BlocksOfRanks& blocks, int root, const char* mine, char* all) const;

    // Block i of `in` goes to rank i, which has it as this rank's block. The two do not overlap.
    void alltoall(uint64_t block, const char* in, char* out) const;

    void copy(char* to, const char* from, uint64_t bytes) const;

  private:
    std::vector<Word> send(const char* from, uint64_t bytes, int to) const;
    std::vector<Word> receive(char* to, uint64_t bytes, int from) const;

    const Team& team_;
    const cuda::Driver& driver_;
    const ThreadStream& stream_;
};

} // namespace gdr::mpi
