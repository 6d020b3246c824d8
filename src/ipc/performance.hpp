// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a copy between the GPUs of two processes costs, for UCP's choice between it and the HCA, and
// between the protocols.
#pragma once

#include "abi/iface.hpp"
#include "cuda/driver.hpp"

namespace gdr::ipc {

struct Links {
    double bandwidth; // bytes per second
    bool reads;       // whether reading from a peer is as fast as writing to it
};

struct Cost {
    double overhead; // seconds in which starting a copy keeps the CPU busy
    double latency;  // seconds from then on until a copy of nothing is seen to have ended
    Links links;
};

// What there is to be had, on GPUs with 18 NVLinks each.
inline constexpr Links kBestLinks{387e9, true};

// Between those GPUs that are joined worst, of which this process sees one at least (its peers may
// see others); on one GPU, where the system has only that.
// UCP asks for one answer for all peers. The first call takes some ms.
Links worst_links(const cuda::Driver& driver);

abi::PerfEstimate estimate(const Cost& cost, abi::EpOperation operation);

} // namespace gdr::ipc
