// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies between any two addresses of this process, of host, CUDA or managed memory, on any GPU and
// of whatever context. What the caller has as current context does not matter and is not changed:
// copies run on streams in the GPU's primary context, which reaches the memory of the others as
// fast.
//
// A copy between two plain host addresses is made by the CPU at once. All others are CUDA's.
#pragma once

#include "abi/base.hpp"
#include "cuda/driver.hpp"
#include "stats/statistics.hpp"
#include "streams/operations.hpp"

#include <span>

namespace gdr::copy {

enum class Direction { put, get }; // from or to the caller's iov

// One thread at a time. A copy that cannot be started or, in copy_now(), fails, throws
// std::exception with CUDA's or the kernel's reason: an address that is neither live CUDA memory
// nor accessible to the CPU, as freed device memory is; a failed GPU; no memory. None of it goes on
// after the call then.
class Engine {
  public:
    Engine(const cuda::Driver& driver, streams::Operations& operations)
        : driver_(driver), operations_(operations)
    {
    }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Starts a copy between the concatenated iov and remote, as one of the operations, for length 0
    // too.
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
