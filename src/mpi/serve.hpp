// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's entry in the module.
#pragma once

#include "mpi/library/collectives.hpp"

namespace gdr::mpi {

// What is told of calls of MPI that come by way of libgdr_mpi.so.0, in the call, before it goes on;
// by several threads at a time, maybe, but nobody goes on before one of them has been told.
struct Listener {
    void (*calls_come)();          // there are such
    void (*device_memory_comes)(); // with buffers on a GPU
};

// Calls of MPI with buffers on a GPU are served from now on, if libgdr_mpi.so.0 is in this process;
// it may come later, and this be called again. Where there is a CUDA driver, or collective calls
// are not the library's: then this process has to vote on them. Any thread.
void serve(Collectives collectives, const Listener& listener);

// How calls of a function of MPI's (MPI_X) have come to the MPI library: none by way of
// libgdr_mpi.so.0, as that is not in this process, or as they go past it; or some by way of it. May
// be asked in a signal handler, as far as the dynamic linker may.
enum class Way { without_layer, past_layer, by_layer };
Way way_of(const char* function);

} // namespace gdr::mpi
