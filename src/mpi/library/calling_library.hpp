// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who opens a UCX: an MPI library, for what it sends and receives, or the application.
#pragma once

namespace gdr::mpi {

// Whether this thread is in a call of an MPI library, by its stack. Takes long, and locks of the
// loader's. Any thread.
bool is_in_mpi_library();

} // namespace gdr::mpi
