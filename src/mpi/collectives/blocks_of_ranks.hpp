// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The bytes of a buffer that belong to each rank, in rank order.
#pragma once

#include <cstdint>
#include <vector>

namespace gdr::mpi {

class BlocksOfRanks {
  public:
    void add(uint64_t bytes) { ends_.push_back(all() + bytes); }
    uint64_t all() const { return ends_.empty() ? 0 : ends_.back(); }
    int ranks() const { return static_cast<int>(ends_.size()); }
    uint64_t begin(int rank) const { return rank == 0 ? 0 : ends_[rank - 1]; }
    uint64_t length(int rank) const { return ends_[rank] - begin(rank); }
    uint64_t longest() const;
    bool equal() const; // all have the same length

  private:
    std::vector<uint64_t> ends_;
};

} // namespace gdr::mpi
