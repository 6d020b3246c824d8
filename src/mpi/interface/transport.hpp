// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether an MPI library hands messages in GPU memory to UCX unchanged; calls.list marks those with
// =. A library that also has another way, such as shared memory within a host, copies them with the
// CPU. Then they are staged.
#pragma once

#include "mpi/interface/library.hpp"

namespace gdr::mpi {

// Decided by the "pml" that Open MPI selected; for MPICH and its family by the text of
// MPI_Get_library_version and MPIR_CVAR_NOLOCAL. False for libraries that tell neither. MPI_Init
// must have returned. The first answer is kept; false is logged once, with what to do.
bool hands_to_ucx(const Library& library);

// Whether it does so between hosts, but within a host the CPU copies. MPIR_CVAR_NOLOCAL=1 ends
// that.
bool copies_within_host(const Library& library);

} // namespace gdr::mpi
