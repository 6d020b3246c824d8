// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's short sends, which do not check the memory type of their payload. They are allowed if that
// is safe: our transport checks the payload itself and returns GPU memory to UCP, which then
// checks, too (rc/ops/untyped_memory.hpp).
//
// It is safe while every interface of the process's UCX is ours, unmapping is detected, and no
// memory type but CUDA's exists besides host memory. It ends forever before another transport's
// interface is opened, which would get GPU memory.
//
// It is also safe if the other interfaces belong to an MPI library whose buffers come through our
// MPI layer, until the layer sees GPU memory for the first time. So programs that do not use the
// GPU of their machine send as fast as without gdr.
//
// What is open decides, and every interface that is opened may change that:
//
//     none --ours--> ours --MPI's--> ours and MPI's --another's--> others
//       |              |                                             ^
//       +--------------+-----another's, or one that is not safe------+
//
//     in ours:            applied
//     in ours and MPI's:  applied while MPI's calls come to us, and no GPU memory in them
//     in none, others:    undone
//
// The preloaded library reports the interfaces. If UCP's calls do not pass through it, short sends
// are never allowed.
#pragma once

#include "host/change.hpp"

#include <mutex>

namespace gdr::host {

// Any thread.
class ShortSends final : public ReversibleChange {
  public:
    // Whether one more interface can change nothing, so that nobody has to find out if it is safe.
    bool is_decided(bool ours, bool by_ucp) const;

    // An interface is about to be opened, and is safe as described above or not.
    void opens(bool ours, bool safe);

    // The first MPI call, and the first one with GPU memory, before it goes on.
    void mpi_calls_come();
    void device_memory_comes();

  private:
    enum class Opened { none, ours, ours_and_mpis, others };

    bool make() override;
    void take_back() override;
    void decide();

    mutable std::mutex mutex_; // protects the rest
    Opened opened_ = Opened::none;
    bool mpi_calls_come_ = false;
    bool device_memory_comes_ = false; // in those calls
};

ShortSends& short_sends();

} // namespace gdr::host
