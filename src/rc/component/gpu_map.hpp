// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tells the user which ports serve which GPU.
#pragma once

#include "topology/assignment.hpp"
#include "verbs/device.hpp"

#include <string>
#include <vector>

namespace gdr::rc {

// A port that can be used. Without its place and rate where the user does not want to see the map.
topology::Port port_of_map(const std::string& name, const verbs::Device& device,
                           const verbs::Port& port);

// Once, for all GPUs of the machine, if the user wants to see it (UCX_LOG_LEVEL=info). ports: those
// that can be used.
void log_gpu_map(const std::vector<topology::Port>& ports);

} // namespace gdr::rc
