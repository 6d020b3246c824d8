// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Times and shares measured between two NVIDIA H200 with 18 NVLinks each; docs/h200.md has the
// table.
#include "ipc/performance.hpp"

#include "abi/host.hpp"
#include "cuda/device.hpp"
#include "cuda/nvml.hpp"

#include <cstdint>
#include <vector>

namespace gdr::ipc {

namespace {

// From the call to the end seen: 7.2 us for 8 bytes and 8.4 us for 4 KiB to 64 KiB.
constexpr double kOverhead = 3.1e-6;
constexpr double kLatency = 5.3e-6;

// 387 of 478 GB/s by NVLink at 64 MiB; 55 of 63 GB/s across PCIe.
constexpr double kNvlinkShare = 0.81;
constexpr double kPcieShare = 0.87;

constexpr double kOneGpu = 2000e9; // a copy within the memory of one
constexpr double kUnknown = 20e9;  // PCIe of the third generation and better has this

double bandwidth_of(const std::optional<cuda::Link>& link)
{
    if (!link)
        return kUnknown;
    return link->bandwidth * (link->nvlink ? kNvlinkShare : kPcieShare);
}

Cost measure(const cuda::Driver& driver)
{
    std::vector<std::string> ids;
    for (const cuda::Device& device : cuda::devices(driver))
        ids.push_back(device.pci_bus_id);
    if (ids.size() == 1)
        return {kOverhead, kLatency, kOneGpu, true};
    const auto link = cuda::slowest_link(ids);
    const Cost cost{kOverhead, kLatency, bandwidth_of(link), !link || link->nvlink};
    gdr_log(debug, "copies between GPUs of this host: %s, %.0f GB/s",
            !link          ? "NVML does not tell the link"
            : link->nvlink ? "NVLink"
                           : "PCIe",
            cost.bandwidth / 1e9);
    return cost;
}

} // namespace

Cost cost_of_links(const cuda::Driver& driver)
{
    static const Cost cost = measure(driver); // of the machine
    return cost;
}

// UCP counts the latency of a get twice, for the request's way and for the data's.
abi::PerfEstimate estimate(const Cost& cost, abi::EpOperation operation)
{
    abi::PerfEstimate answer = {};
    answer.send_pre_overhead = cost.overhead;
    answer.latency = operation == abi::EpOperation::get_zcopy ? cost.latency / 2 : cost.latency;
    answer.bandwidth_shared = cost.bandwidth;
    answer.max_inflight_eps = SIZE_MAX;
    return answer;
}

} // namespace gdr::ipc
