// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether a put or a get of GPU memory goes to UCX unchanged. MPI libraries also have ways in which
// the CPU copies: shared memory, and messages to the target.
#pragma once

#include "mpi/interface/arguments.hpp"

namespace gdr::mpi {

// For a call with a window. False if unknown.
bool hands_put_to_ucx(const Arguments& arguments);

// may: whether UCX may copy puts and gets of GPU memory with the CPU. To be set before any call;
// until then it may.
void set_processor_may_put(bool (*may)());

} // namespace gdr::mpi
