// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Sources: bandwidth is the port's data rate less packet headers at the path MTU. Latency and
// overhead are typical of ConnectX HCAs as their vendors and users publish them (0.6 us port to
// port on InfiniBand, one more lookup on RoCE; a work request costs under 100 ns of CPU). No HCA
// was at hand to measure them. UCX's own transports claim values of the same order, so UCP prefers
// neither for its claims.
#include "rc/component/estimate.hpp"

#include "abi/settings.hpp"
#include "rc/iface.hpp"
#include "rc/memory_domain.hpp"

namespace gdr::rc {
namespace {

constexpr double kOverhead = 75e-9;
constexpr double kInfinibandLatency = 600e-9;
constexpr double kRoceLatency = 850e-9;
constexpr double kLatencyPerEndpoint = 1e-9; // the HCA fetches queue pair state, amortised
constexpr double kBufferCopyBandwidth =
    5e9; // bytes/s, memcpy of a message that is not in the cache

// The estimated cost of a zero-copy put or message besides its registration (memory_domain.cpp),
// for protocols v2. UCP weighs it against a copy at about 6 GB/s, but a buffer in the caches is
// copied five times as fast, and a short operation (up to Limits::kMaxShort) needs no UCP request
// either. With this value UCP switches at 4 KiB. Measured on a machine with an H200: puts of 768 B
// to 3 KiB take 2.30 us without a copy and 1.95 with one, messages of 2,000 to 4,000 B 1.10 to 1.26
// of a short one.
constexpr double kZeroCopy = 0.35e-6;

// What the receiver does with each fragment of an eager message for GPU memory: a copy by CUDA (6.6
// us from unpinned memory, on an H200).
constexpr double kFragmentToGpu = 6.6e-6;

// Bytes of headers and checksums around each packet's payload.
constexpr unsigned kInfinibandHeaders = 8 + 12 + 4 + 2; // LRH BTH ICRC VCRC
constexpr unsigned kRoceHeaders =
    14 + 40 + 8 + 12 + 4 + 4 + 20; // Ethernet IPv6 UDP BTH ICRC FCS gap

bool copies_through_buffer(abi::EpOperation operation)
{
    return operation == abi::EpOperation::am_bcopy || operation == abi::EpOperation::put_bcopy ||
           operation == abi::EpOperation::get_bcopy;
}

} // namespace

PortCost port_cost(const verbs::Port& port)
{
    double mtu = 128 << port.attributes.active_mtu; // enum ibv_mtu: 256 is 1
    double headers = port.ethernet ? kRoceHeaders : kInfinibandHeaders;
    return {kOverhead, port.ethernet ? kRoceLatency : kInfinibandLatency,
            port.bandwidth * mtu / (mtu + headers)};
}

abi::PerfEstimate estimate_perf(uct_iface_h tl_iface, const abi::PerfQuery& query)
{
    const Iface& iface = rc_iface(tl_iface);
    PortCost cost = port_cost(iface.port);
    abi::PerfEstimate estimate{};
    estimate.send_pre_overhead = cost.overhead;
    // Protocols v1 use only this value, as the cost of each fragment, and derive from it one
    // rendezvous threshold for messages of all memory types: with GPUs the smallest possible, one
    // fragment. Between it and the threshold without GPUs, a message of host memory takes up to
    // 1.65 times as long as eager fragments, and one of GPU memory a fifth to a quarter.
    estimate.send_post_overhead =
        iface.rules.any_memory && query.operation == abi::EpOperation::am_zcopy ? kFragmentToGpu
                                                                                : 0;
    estimate.recv_overhead = cost.overhead;
    estimate.bandwidth_dedicated = 0;
    estimate.bandwidth_shared = cost.bandwidth;
    // Protocols v2 count copies at both ends themselves. With copies in our estimate too, UCP used
    // zero-copy for messages, puts and gets from 600 bytes on. The cost of a message is counted
    // once, not per fragment, which would make rendezvous begin at a single fragment.
    const bool protocols_v2 = iface.domain.serves_protocols_v2();
    if (protocols_v2) {
        if (query.operation == abi::EpOperation::put_zcopy) {
            estimate.send_pre_overhead += kZeroCopy;
        }
        if (query.operation == abi::EpOperation::am_zcopy) {
            cost.latency += kZeroCopy;
        }
    } else if (copies_through_buffer(query.operation)) {
        estimate.bandwidth_shared = 1 / (1 / cost.bandwidth + 1 / kBufferCopyBandwidth);
    }
    estimate.latency =
        protocols_v2 ? abi::told_latency(query.operation, cost.latency) : cost.latency;
    estimate.latency_per_endpoint = kLatencyPerEndpoint;
    estimate.max_inflight_eps = SIZE_MAX;
    return estimate;
}

} // namespace gdr::rc
