// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How much a call has received, as MPI tells it: in the application's statuses or, where it wants
// none, in our own.
#pragma once

#include "mpi/library/call.hpp"
#include "mpi/library/library.hpp"

#include <array>
#include <vector>

namespace gdr::mpi {

class Statuses {
  public:
    // One of our own.
    explicit Statuses(const Library& library);

    // Of a call whose last argument is so many statuses: where that is MPI_STATUS_IGNORE, words
    // gets our own, which have to outlive the call. Throws std::bad_alloc.
    Statuses(const Library& library, const Call& call, Word* words, size_t count);

    Statuses(const Statuses&) = delete;
    Statuses& operator=(const Statuses&) = delete;

    // As an argument.
    Word word() const { return statuses_; }

    // Of a receive that MPI has completed: the message's bytes, none if it was cancelled. At most
    // INT_MAX: longer ones are not told of.
    uint64_t received(size_t index) const;

    // Where MPI_ERR_IN_STATUS is what the call returned.
    bool failed(size_t index) const;

  private:
    const char* at(size_t index) const;

    const Library& library_;
    std::array<uint64_t, 4> one_{}; // of any ABI
    std::vector<uint64_t> several_;
    Word statuses_;
};

} // namespace gdr::mpi
