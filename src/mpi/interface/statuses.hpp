// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How much a call has received, as MPI reports it: in the application's statuses or, if it wants
// none, in our own.
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/library.hpp"

#include <array>
#include <vector>

namespace gdr::mpi {

class Statuses {
  public:
    // One status of our own.
    explicit Statuses(const Library& library);

    // For a call whose last argument is an array of `count` statuses. If that is MPI_STATUS_IGNORE,
    // `words` gets our own statuses, which must outlive the call. Throws std::bad_alloc.
    Statuses(const Library& library, const Call& call, Word* words, size_t count);

    Statuses(const Statuses&) = delete;
    Statuses& operator=(const Statuses&) = delete;

    // As an argument.
    Word word() const { return statuses_; }

    // For a receive that MPI has completed: the message's bytes, 0 if it was cancelled. At most
    // INT_MAX; the length of longer messages is unknown.
    uint64_t received(size_t index) const;

    // To be asked if the call returned MPI_ERR_IN_STATUS.
    bool failed(size_t index) const;

  private:
    const char* at(size_t index) const;

    const Library& library_;
    std::array<uint64_t, 4> one_{}; // large enough for any ABI
    std::vector<uint64_t> several_;
    Word statuses_;
};

} // namespace gdr::mpi
