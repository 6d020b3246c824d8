// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The Open MPI that loads the component: whether its layout is known.
#pragma once

#include "openmpi/series_6_0.hpp"

#include <string>

namespace gdr::openmpi {

// Why the Open MPI whose code holds the address must not get our module; empty: it may. Its null
// component and the sizes of its exported objects show another series or build, or it has an
// accelerator component of its own. Any thread.
std::string refusal(const void* code);

// The null component's module of an Open MPI 6 that is not refused; nullptr in 5.0.
const Module6* null_module_6(const void* code);

// Whether it has an accelerator component of its own besides "null" and ours: one built with CUDA
// or ROCm keeps that.
bool has_own_accelerator(const void* code);

} // namespace gdr::openmpi
