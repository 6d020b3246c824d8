// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A rank whose part has failed notifies the others of its team, which would otherwise wait for it
// forever. One object for a team at a time.
#pragma once

#include "mpi/collectives/team.hpp"

namespace gdr::mpi {

class FailureNotices {
  public:
    // The team has to outlive it. Throws MpiError.
    explicit FailureNotices(const Team& team);
    FailureNotices(const FailureNotices&) = delete;
    FailureNotices& operator=(const FailureNotices&) = delete;

    // Whether another rank has reported a failure. Lets MPI make progress. Throws MpiError.
    bool arrived();

    // Sends to all others and waits for none of them. Throws MpiError.
    void send() const;

    // To be called before the team and MPI end: no notices are received any more.
    void stop();

  private:
    const Team& team_;
    const Library& library_;
    Word request_ = 0; // of the receive that waits for the first notice
    bool arrived_ = false;
};

} // namespace gdr::mpi
