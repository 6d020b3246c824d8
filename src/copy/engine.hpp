// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies between any two addresses of this process: host, CUDA or managed memory, on any GPU and of
// any context. The caller's current context does not matter and stays as it is: copies run on
// streams in the GPU's primary context, which accesses memory of other contexts as fast.
//
// The CPU copies between two plain host addresses at once. CUDA makes all other copies.
#pragma once

#include "abi/base.hpp"
#include "cuda/driver.hpp"
#include "stats/statistics.hpp"
#include "streams/operations.hpp"

#include <span>

namespace gdr::copy {

enum class Direction { put, get }; // from or to the caller's iov

// Used by one thread at a time. If a copy cannot be started or, in copy_now(), fails, the call
// throws std::exception with CUDA's or the kernel's reason: an address that is neither live CUDA
// memory nor accessible to the CPU, as freed device memory is; a failed GPU; no memory. No part of
// the copy continues after the call then.
class Engine {
  public:
    Engine(const cuda::Driver& driver, streams::Operations& operations)
        : driver_(driver), operations_(operations)
    {
    }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Starts a copy between the concatenated iov and remote as one of the operations, even for
    // length 0.
    void start(Direction direction, std::span<const uct_iov_t> iov, void* remote,
               uct_completion_t* completion);

    // Returns when the copy has ended.
    void copy_now(void* destination, const void* source, size_t length);

    const stats::Counts& counts() const { return counts_; }

  private:
    class Issue;

    const cuda::Driver& driver_;
    streams::Operations& operations_;
    stats::Counts counts_;
};

} // namespace gdr::copy
