// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether an MPI library hands messages on a GPU to UCX as they are, which is what calls.list marks
// with =. One that has another way as well, such as shared memory within a host, copies them with
// the CPU: there they are staged.
#pragma once

#include "mpi/library/library.hpp"

namespace gdr::mpi {

// Of Open MPI the "pml" that it selected, of MPICH and its family what MPI_Get_library_version says
// and MPIR_CVAR_NOLOCAL. No for libraries that tell neither. Before, MPI_Init has to have returned.
// The first answer is kept; a no is said then, once, in UCX's log, with what to do.
bool hands_to_ucx(const Library& library);

// Whether that is so between hosts, but within one the CPU copies, which MPIR_CVAR_NOLOCAL=1 ends.
bool copies_within_host(const Library& library);

} // namespace gdr::mpi
