// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Counts the payload of an interface, for the process's statistics.
#pragma once

#include "stats/statistics.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::rc {

class Traffic {
  public:
    Traffic() = default;
    ~Traffic()
    {
        stats::statistics().add({.gpudirect_bytes = bytes_[1],
                                 .host_bytes = bytes_[0],
                                 .gpudirect_ops = operations_[1]});
    }
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    // kind: a mem::MemoryKind; device if either side's memory is.
    void count(unsigned kind, size_t bytes)
    {
        bytes_[kind] += bytes;
        ++operations_[kind];
    }

  private:
    uint64_t bytes_[2]{};
    uint64_t operations_[2]{};
};

} // namespace gdr::rc
