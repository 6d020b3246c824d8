// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's entry in the module.
#pragma once

#include "mpi/library/collectives.hpp"

namespace gdr::mpi {

// Calls of MPI with buffers on a GPU are served from now on, if libgdr_mpi.so.0 is in this process;
// it may come later, and this be called again. Where there is a CUDA driver, or collective calls
// are not the library's: then this process has to vote on them. device_memory_comes is called when
// MPI calls bring memory of a GPU for the first time, before any of it is passed on, maybe in
// several threads at a time, until one has returned. Any thread.
void serve(Collectives collectives, void (*device_memory_comes)());

// Whether an MPI library that is served initialises itself in this thread, as the program has asked
// by way of libgdr_mpi.so.0: what it opens meanwhile is given the application's buffers by calls
// that come the same way.
bool is_initialising();

} // namespace gdr::mpi
