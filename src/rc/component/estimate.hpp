// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Cost estimates for UCP's protocol selection. estimate.cpp names the sources of the numbers.
#pragma once

#include "abi/iface.hpp"
#include "verbs/device.hpp"

namespace gdr::rc {

abi::PerfEstimate estimate_perf(uct_iface_h iface, const abi::PerfQuery& query);

struct PortCost {
    double overhead;  // seconds of CPU per operation
    double latency;   // seconds, one way
    double bandwidth; // bytes per second
};
PortCost port_cost(const verbs::Port& port);

} // namespace gdr::rc
