// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The cost of a copy, for UCP's choice of protocols. Every number is a measurement, so that UCP
// prefers the HCA to a bounce copy exactly if the HCA is faster.
#pragma once

#include "abi/iface.hpp"

namespace gdr::copy {

// mapped: the CPU can access device memory (mapped_memory.hpp).
abi::PerfEstimate estimate(const abi::PerfQuery& query, bool mapped);

// The host-device copy through ZCOPY, for the attributes of the interface as a whole.
abi::PerfEstimate typical_estimate();

} // namespace gdr::copy
