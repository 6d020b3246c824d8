// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// By which a rank whose part of something has failed tells the others of its team, who would wait
// for it for ever. One for a team at a time.
#pragma once

#include "mpi/collectives/team.hpp"

namespace gdr::mpi {

class FailureNotices {
  public:
    // The team has to outlive it. Throws MpiError.
    explicit FailureNotices(const Team& team);
    FailureNotices(const FailureNotices&) = delete;
    FailureNotices& operator=(const FailureNotices&) = delete;

    // Whether another rank has told of a failure. Lets MPI make progress. Throws MpiError.
    bool arrived();

    // To all others; waits for none of them. Throws MpiError.
    void send() const;

    // Before the team's end, and MPI's: none are received any more.
    void stop();

  private:
    const Team& team_;
    const Library& library_;
    Word request_ = 0; // of the receive that waits for the first
    bool arrived_ = false;
};

} // namespace gdr::mpi
