// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who calls: an MPI library with its components, or somebody else.
#pragma once

namespace gdr::mpi {

// Whether the stack of this thread contains a call of an MPI library; callbacks of the application
// count, too. Slow, and takes locks of the loader. Any thread.
bool is_in_mpi_library();

} // namespace gdr::mpi
