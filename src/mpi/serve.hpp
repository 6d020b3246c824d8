// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's entry in the module.
#pragma once

namespace gdr::mpi {

// Calls of MPI with buffers on a GPU are served from now on, if libgdr_mpi.so.0 is in this process.
// To be called once there is a CUDA driver.
void serve();

} // namespace gdr::mpi
