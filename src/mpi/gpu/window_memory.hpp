// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Windows in GPU memory. In Open MPI the origin applies operations. In MPICH the target's CPU does,
// and no layer can stage that: the origin does not know the window's memory, and the target does
// not know what is applied.
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

// MPI_Win_create or MPI_Win_attach. Looks at the memory as at any buffer. If it is on a GPU and
// this MPI cannot do there all that MPI allows, this is logged once, with what to do. If no other
// rank could put or get anything, MPI makes the window, as it does for the others, and the call
// fails.
Handler make_window;

} // namespace gdr::mpi
