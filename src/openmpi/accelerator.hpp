// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions that Open MPI calls in its accelerator component. Any thread. They never initialise
// CUDA: until the program has done so, all memory is host memory, and calls that need a GPU fail
// with kError.
#pragma once

#include "openmpi/series_6_0.hpp"

namespace gdr::openmpi {

// In static storage. Managed memory counts as host memory, since the CPU can access it. Copies use
// an own stream of the GPU, in its primary context, and so do not wait for other kernels.
Module& module();

// The same for Open MPI 6; `null` is its null component's module. Asynchronous calls are complete
// on return.
Module6& module_6(const Module6& null);

} // namespace gdr::openmpi
