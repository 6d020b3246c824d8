// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's entry in the module.
#pragma once

#include "mpi/interface/collectives.hpp"

namespace gdr::mpi {

// Learns of MPI calls that come through libgdr_mpi.so.0, before each call goes on. Several threads
// may report at once; none goes on before one of them has.
struct Listener {
    void (*calls_come)();          // the first call
    void (*device_memory_comes)(); // the first call with a buffer on a GPU
};

// From now on the layer serves MPI calls with buffers on a GPU, if libgdr_mpi.so.0 is in this
// process. If it is loaded later, call this again. To be called if there is a CUDA driver, or if
// `collectives` is not Collectives::library: then this process has to vote. processor_may_put:
// whether UCX may copy puts and gets of GPU memory with the CPU. Any thread.
void serve(Collectives collectives, const Listener& listener, bool (*processor_may_put)());

// How calls of an MPI function (MPI_X) have reached the MPI library: all past libgdr_mpi.so.0,
// because that is not in this process or they bypass it; or some through it. A signal handler may
// ask this as far as it may use the dynamic linker.
enum class Way { without_layer, past_layer, by_layer };
Way way_of(const char* function);

} // namespace gdr::mpi
