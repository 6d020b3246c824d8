// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tells the user which ports serve which GPU.
#pragma once

#include "topology/assignment.hpp"

#include <vector>

namespace gdr::rc {

// Once, for all GPUs of the machine, if the user wants to see it (UCX_LOG_LEVEL=info). ports: those
// that can be used.
void log_gpu_map(const std::vector<topology::Port>& ports);

} // namespace gdr::rc
