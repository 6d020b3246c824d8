// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collective algorithms between GPUs: messages between neighbours in a ring, by which each rank
// sends and receives no more bytes than any algorithm has to, in pieces, so that one is reduced or
// passed on while the next arrives. All buffers are on the GPU of the stream.
#pragma once

#include "cuda/driver.hpp"
#include "kernels/reduction.hpp"
#include "mpi/collectives/blocks_of_ranks.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/gpu/thread_stream.hpp"

#include <cstdint>
#include <vector>

namespace gdr::mpi {

class Ring {
  public:
    // All have to outlive it.
    Ring(const Team& team, const ThreadStream& stream) : team_(team), stream_(stream) {}

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

  private:
    std::vector<Word> send(const char* from, uint64_t bytes, int to) const;
    std::vector<Word> receive(char* to, uint64_t bytes, int from) const;

    const Team& team_;
    const ThreadStream& stream_;
};

} // namespace gdr::mpi
