// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Empty messages with a tag of their own.
#include "mpi/collectives/failure_notices.hpp"

namespace gdr::mpi {

namespace {

constexpr int kTag = 1; // differs from that of the team's other messages

} // namespace

FailureNotices::FailureNotices(const Team& team) : team_(team), library_(team.library())
{
    check_mpi(library_.Irecv(nullptr, 0, library_.byte, library_.abi->any_source, kTag,
                             team_.comm(), &request_));
}

bool FailureNotices::arrived()
{
    if (arrived_) {
        return true;
    }
    int done = 0;
    check_mpi(library_.Test(&request_, &done, library_.abi->status_ignore));
    arrived_ = done != 0;
    return arrived_;
}

void FailureNotices::send() const
{
    for (int rank = 0; rank < team_.size(); ++rank) {
        if (rank == team_.rank()) {
            continue;
        }
        Word request = 0;
        check_mpi(library_.Isend(nullptr, 0, library_.byte, rank, kTag, team_.comm(), &request));
        check_mpi(library_.Request_free(&request));
    }
}

void FailureNotices::stop()
{
    if (arrived_) {
        return;
    }
    library_.Cancel(&request_);
    library_.Wait(&request_, library_.abi->status_ignore);
    arrived_ = true;
}

} // namespace gdr::mpi
