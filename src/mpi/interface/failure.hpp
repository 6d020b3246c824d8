// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Errors of the layer itself, reported as MPI reports its own.
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/library.hpp"

#include <exception>

namespace gdr::mpi {

// Logs the error in UCX's log and calls the error handler of the call's communicator, window or
// file; for calls that complete requests, the handler of MPI_COMM_WORLD. The call returns what this
// returns, MPI_ERR_OTHER.
int fail(const Library& library, const Call& call, const Word* words, const std::exception& error);

// The same, for what this library cannot do with GPU memory. why: with what to do.
int refuse(const Library& library, const Call& call, const Word* words, const char* why);

// Runs several steps, each even if others fail.
class EachStep {
  public:
    template <typename Step>
    void attempt(Step step)
    {
        try {
            step();
        } catch (...) {
            if (!first_) {
                first_ = std::current_exception();
            }
        }
    }

    // Throws the first failure.
    void end() const
    {
        if (first_) {
            std::rethrow_exception(first_);
        }
    }

  private:
    std::exception_ptr first_;
};

} // namespace gdr::mpi
