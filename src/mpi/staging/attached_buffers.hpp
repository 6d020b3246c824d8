// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI_Buffer_attach with a buffer on a GPU. MPI's CPU copies MPI_Bsend's messages into the buffer,
// so it gets host memory of the same size. The application gets its own buffer back when it
// detaches. Any thread.
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

Handler attach_buffer;
Handler detach_buffer;

} // namespace gdr::mpi
