// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allows UCP's short sends, which do not check the memory type of their payload, if that is safe:
// our transport checks the payload itself and returns GPU memory to UCP, which then checks, too
// (rc/ops/untyped_memory.hpp).
//
// It is safe while every interface of the process's UCX is ours, unmapping is detected, and no
// memory type but CUDA's exists besides host memory. It ends forever before another transport's
// interface is opened, which would get GPU memory.
//
// It is also safe if the other interfaces belong to an MPI library whose buffers come through our
// MPI layer, until the layer sees GPU memory for the first time. So programs that do not use the
// GPU of their machine send as fast as without gdr.
#pragma once

#include "mpi/serve.hpp"

namespace gdr::plugin {

// To be called before UCX's memory type cache is disabled.
void prepare_short_sends();

// Receives the events of the MPI layer.
extern const mpi::Listener listener_to_mpi;

} // namespace gdr::plugin
