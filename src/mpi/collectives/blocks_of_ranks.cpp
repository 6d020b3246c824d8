// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/collectives/blocks_of_ranks.hpp"

#include <algorithm>

namespace gdr::mpi {

uint64_t BlocksOfRanks::longest() const
{
    uint64_t longest = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
        longest = std::max(longest, length(rank));
    }
    return longest;
}

bool BlocksOfRanks::equal() const
{
    return longest() * ends_.size() == all();
}

} // namespace gdr::mpi
