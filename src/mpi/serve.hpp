// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's entry in the module.
#pragma once

namespace gdr::mpi {

// Calls of MPI with buffers on a GPU are served from now on, if libgdr_mpi.so.0 is in this process;
// it may come later, and this be called again. collectives_on_gpus: see gpu_collectives.hpp. Where
// there is a CUDA driver or collectives_on_gpus, of which this process has to vote then. Any
// thread.
void serve(bool collectives_on_gpus);

} // namespace gdr::mpi
