// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls that are passed on unchanged, whatever their buffers are.
#pragma once

#include "mpi/interface/invocation.hpp"

namespace gdr::mpi {

// Tells of GPU memory among the call's buffers (device_memory.hpp). Throws cuda::Error.
void look_at_buffers(const cuda::Driver& driver, const Call& call, const Word* words);

// MPICH's calls on streams.
Handler pass_on;

} // namespace gdr::mpi
