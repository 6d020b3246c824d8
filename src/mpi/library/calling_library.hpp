// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who calls: an MPI library or its components, or somebody else.
#pragma once

namespace gdr::mpi {

// Whether this thread is in a call of an MPI library, by its stack: in a callback of the
// application's, too. Takes long, and locks of the loader's. Any thread.
bool is_in_mpi_library();

} // namespace gdr::mpi
