// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Windows in GPU memory. Open MPI has the origin apply what is done there; MPICH has the CPU of the
// target do it, where no layer can stage it: the origin does not know what the window is, and the
// target not what is applied.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/library/arguments.hpp"

namespace gdr::mpi {

// MPI_Win_create or MPI_Win_attach. Looks at the memory, as at any buffer; where it is a GPU's, and
// this MPI cannot do all that MPI allows there, that is said, once, in UCX's log, with what to do.
// Where no other rank could put or get anything MPI makes the window, as it does for the others,
// and the call fails. Returns what MPI returns, or MPI_ERR_OTHER. Throws cuda::Error, before MPI is
// called. Any thread.
int make_window(const cuda::Driver& driver, const Arguments& arguments, gdr_mpi_function* function);

} // namespace gdr::mpi
