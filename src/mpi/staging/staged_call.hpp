// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls with buffers: what is on a GPU and MPI would access with the CPU is staged. The call, its
// request or its window completes it.
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

Handler stage_call;

} // namespace gdr::mpi
