// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// From a call to the handler of its kind.
#pragma once

#include "mpi/interface/abi.hpp"
#include "mpi/interface/call.hpp"

namespace gdr::mpi {

// Makes a call of an MPI library's function. Returns what MPI returns, or MPI_ERR_OTHER if a copy
// failed. Throws Thrown. Any thread.
int dispatch(const Call& call, gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
