// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether a put or a get of GPU memory goes to UCX as it is. MPI libraries have other ways beside
// that, on which the CPU copies: shared memory, and messages to the target.
#pragma once

#include "mpi/library/arguments.hpp"

namespace gdr::mpi {

// Of a call with a window. No where that is not known.
bool hands_put_to_ucx(const Arguments& arguments);

} // namespace gdr::mpi
