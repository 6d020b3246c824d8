// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The Open MPI that loads the component: whether it is one whose layout we know.
#pragma once

#include "openmpi/series_6_0.hpp"

#include <string>

namespace gdr::openmpi {

// Why the Open MPI that an address is in the code of is not to have our module: it is of another
// series or build, as its own null component and the sizes of what it exports tell, or it has an
// accelerator component of its own. Empty where it is to have it. Any thread.
std::string refusal(const void* code);

// The null component's module of an Open MPI 6 that is not refused; nullptr in 5.0.
const Module6* null_module_6(const void* code);

// Whether it has an accelerator component of its own (beside "null" and ours): one built with CUDA
// or ROCm keeps that.
bool has_own_accelerator(const void* code);

} // namespace gdr::openmpi
