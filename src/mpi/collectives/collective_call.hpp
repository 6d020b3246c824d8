// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who makes a collective call: the GPUs, if that is asked for and all ranks agree, or the MPI
// library, staged like any other call.
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

// With or without a driver: without one, this rank takes part in the vote.
Handler make_collective;

} // namespace gdr::mpi
