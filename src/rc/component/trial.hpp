// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether a port can have an interface. UCX opens one on each port that it was told about, for each
// worker, and gives up the worker if one fails. So features that HCAs may lack are tried before.
#pragma once

#include "verbs/device.hpp"

#include <string>

namespace gdr::rc {

// Why it cannot, after "PORT "; empty if it can.
std::string try_queues(const verbs::Device& device, ibv_pd* pd, const verbs::Port& port);

} // namespace gdr::rc
