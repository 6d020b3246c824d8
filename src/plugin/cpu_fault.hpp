// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program dies with a bare segmentation fault when its CPU touches GPU memory, as an MPI library
// built without CUDA does in the calls that never reach UCX. Here it gets a message first, with the
// call and what to do; then it dies as it would have.
#pragma once

#include "cuda/driver.hpp"

namespace gdr::plugin {

// From now on. Once per process; later calls do nothing.
void explain_cpu_faults(const cuda::Driver& driver);

} // namespace gdr::plugin
