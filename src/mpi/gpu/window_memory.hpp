// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Windows in GPU memory. Open MPI has the origin apply what is done there; MPICH has the CPU of the
// target do it, where no layer can stage it: the origin does not know what the window is, and the
// target not what is applied.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/library/arguments.hpp"

namespace gdr::mpi {

// Memory is about to become a window's, by MPI_Win_create or MPI_Win_attach. Looks at it, as at any
// buffer; where it is a GPU's, and this MPI cannot do all that MPI allows there, that is said,
// once, in UCX's log, with what to do. Throws cuda::Error. Any thread.
void look_at_window(const cuda::Driver& driver, const Arguments& arguments);

} // namespace gdr::mpi
