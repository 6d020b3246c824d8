// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The cost of a copy between the GPUs of two processes, for UCP's choice between it and the HCA,
// and between protocols.
#pragma once

#include "abi/iface.hpp"
#include "cuda/driver.hpp"

namespace gdr::ipc {

struct Links {
    double bandwidth; // bytes per second
    bool reads;       // reading from a peer is as fast as writing to it
};

struct Cost {
    double overhead; // seconds in which starting a copy keeps the CPU busy
    double latency;  // seconds from then until an empty copy is seen to have ended
    Links links;
};

// The best links there are, between GPUs with 18 NVLinks each.
inline constexpr Links kBestLinks{387e9, true};

// The worst link among the GPUs, of which this process sees at least one (its peers may see
// others); within one GPU if the system has only one. UCP wants one answer for all peers. The first
// call takes some ms.
Links worst_links(const cuda::Driver& driver);

abi::PerfEstimate estimate(const Cost& cost, abi::EpOperation operation);

} // namespace gdr::ipc
