// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Errors that are the layer's own, told as MPI tells its own.
#pragma once

#include "mpi/library/call.hpp"
#include "mpi/library/library.hpp"

#include <exception>

namespace gdr::mpi {

// Says it in UCX's log and calls the error handler of the call's communicator, window or file, for
// calls that complete requests that of MPI_COMM_WORLD. What this returns, MPI_ERR_OTHER, is what
// the call returns.
int fail(const Library& library, const Call& call, const Word* words, const std::exception& error);

// The same of what this library cannot do with GPU memory. why: with what to do.
int refuse(const Library& library, const Call& call, const Word* words, const char* why);

// Several steps of which each is to be tried, whether others fail or not.
class EachStep {
  public:
    template <typename Step>
    void attempt(Step step)
    {
        try {
            step();
        } catch (...) {
            if (!first_)
                first_ = std::current_exception();
        }
    }

    // Throws what the first failure was.
    void end() const
    {
        if (first_)
            std::rethrow_exception(first_);
    }

  private:
    std::exception_ptr first_;
};

} // namespace gdr::mpi
