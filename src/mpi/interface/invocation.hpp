// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A call of an MPI function by the application, as the layer's handler for its kind gets it.
#pragma once

#include "mpi/interface/apply.hpp"
#include "mpi/interface/arguments.hpp"

#include <optional>

namespace gdr::cuda {
struct Driver;
}

namespace gdr::mpi {

class Invocation : public Arguments {
  public:
    Invocation(const cuda::Driver* driver, const Library& library, const Call& call,
               gdr_mpi_function* function, Word* words)
        : Arguments(library, call, words), driver_(driver), function_(function)
    {
    }

    // nullptr: none, as in a forked child. Few handlers get such calls.
    const cuda::Driver* driver() const { return driver_; }

    // Makes the call by the library's function, with the arguments as they are now: a handler may
    // have replaced some. Returns what MPI returns. Throws Thrown.
    int make() const { return apply(function_, call(), words()); }

  private:
    const cuda::Driver* driver_;
    gdr_mpi_function* function_;
};

// Makes the call and returns what MPI returns. Nothing: it has not made the call, which needs
// nothing of the layer. An exception that it throws becomes MPI_ERR_OTHER, as in fail(). Any
// thread.
using Handler = std::optional<int>(const Invocation& invocation);

} // namespace gdr::mpi
