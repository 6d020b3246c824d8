// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What Open MPI asks its accelerator component for. Any thread. CUDA is never initialised by it:
// until the program has done so all memory is host memory, and what needs a GPU fails with kError.
#pragma once

#include "openmpi/series_6_0.hpp"

namespace gdr::openmpi {

// Of static lifetime. Managed memory counts as host memory: the CPU reaches it. Copies go by an own
// stream of the GPU, in its primary context, and so wait for nobody's kernels.
Module& module();

// The same for Open MPI 6, whose null component's module is given. What may be asynchronous is done
// when it returns.
Module6& module_6(const Module6& null);

} // namespace gdr::openmpi
