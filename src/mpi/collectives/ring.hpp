// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collective algorithms between GPUs: messages between neighbours in a ring. Each rank sends and
// receives the minimum number of bytes. Messages go in pieces, so that one is reduced or forwarded
// while the next arrives. All buffers are on the stream's GPU.
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

    // Puts the sum (or other reduction) of all ranks' parts of this rank's block at `result`.
    // `result` is the block's place in `in`, or does not overlap `in`. element: bytes. All
    // functions throw MpiError, cuda::Error, and then leave messages under way.
    void reduce_scatter(const kernels::Reduction& reduction, uint64_t element,
                        const BlocksOfRanks& blocks, const char* in, char* result,
                        char* scratch) const;

    // Before, each rank has its own block in place; afterwards, all of them.
    void allgather(const BlocksOfRanks& blocks, char* all) const;

    // The root receives the others' blocks; they send theirs, which are at `mine`.
    void gather(const BlocksOfRanks& blocks, int root, const char* mine, char* all) const;

    // Block i of `in` goes to rank i, which stores it as this rank's block. The two must not
    // overlap.
    void alltoall(uint64_t block, const char* in, char* out) const;

  private:
    std::vector<Word> send(const char* from, uint64_t bytes, int to) const;
    std::vector<Word> receive(char* to, uint64_t bytes, int from) const;

    const Team& team_;
    const ThreadStream& stream_;
};

} // namespace gdr::mpi
