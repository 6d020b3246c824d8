// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's short sends, which take no look at the memory of their payload, where they are safe: our
// transport looks itself, and gives GPU memory back to UCP, which then looks, too
// (rc/untyped_memory.hpp).
//
// That is where every interface of the process's UCX is ours, as long as unmapping is seen and no
// memory but CUDA's has to be told from the host's. It ends for good before an interface of another
// transport is opened, which would be given GPU memory.
//
// And where the others' are an MPI library's, which gets its buffers by way of our MPI layer, until
// that sees the first memory of a GPU: who uses none on a machine that has one sends as without us.
#pragma once

#include "mpi/serve.hpp"

namespace gdr::plugin {

// To be called before UCX's cache of memory types is switched off.
void prepare_short_sends();

// What the MPI layer is to tell.
extern const mpi::Listener listener_to_mpi;

} // namespace gdr::plugin
