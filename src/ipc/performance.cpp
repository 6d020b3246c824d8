// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Measured figures come from two NVIDIA H200 with 18 NVLinks each. The others are assumptions, and
// say so.
#include "ipc/performance.hpp"

#include "cuda/device.hpp"
#include "cuda/inventory.hpp"
#include "cuda/nvml.hpp"
#include "log/log.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace gdr::ipc {

namespace {

// Measured: a copy of 64 MiB runs at 387 of NVLink's 478 GB/s.
constexpr double kNvlinkShare = 0.81;

// Assumed, not measured between GPUs without NVLink: 55 of the 63 GB/s of PCIe 5 x16.
constexpr double kPcieShare = 0.87;

// Also assumed: each read across PCIe waits for its answer.
constexpr double kReadAcrossPcie = 1e9;

// Also assumed: a copy within the memory of one GPU, and a link unknown to NVML.
constexpr double kOneGpu = 2000e9;
constexpr double kUnknown = 20e9;

double bandwidth_of(const std::optional<cuda::Link>& link)
{
    if (!link) {
        return kUnknown;
    }
    return link->bandwidth * (link->nvlink ? kNvlinkShare : kPcieShare);
}

struct Gpu {
    std::string id, name; // the PCI address, and a name for the user
};

struct Pair {
    Gpu one, other;
};

void log_no_access(const Pair& pair)
{
    gdr_log(info,
            "%s and %s: no CUDA IPC, for the driver does not let them reach each other (MIG, a "
            "virtual machine, or no path: nvidia-smi topo -p2p r)",
            pair.one.name.c_str(), pair.other.name.c_str());
}

// The GPUs that this process sees.
std::vector<Gpu> visible_gpus(const cuda::Driver& driver)
{
    std::vector<Gpu> gpus;
    for (const cuda::Device& device : cuda::devices(driver)) {
        gpus.push_back({device.pci_bus_id, "GPU " + std::to_string(device.handle)});
    }
    return gpus;
}

// Logs the pairs that cannot reach each other, for ucx-gdr info, which cannot find out itself.
// Devices are numbered by ordinal.
std::vector<Pair> pairs_that_reach(const cuda::Driver& driver, const std::vector<Gpu>& gpus)
{
    std::vector<Pair> pairs;
    for (size_t one = 0; one < gpus.size(); ++one) {
        for (size_t other = one + 1; other < gpus.size(); ++other) {
            int reaches = 0;
            const Pair pair{gpus[one], gpus[other]};
            if (driver.cuDeviceCanAccessPeer(&reaches, static_cast<CUdevice>(one),
                                             static_cast<CUdevice>(other)) == CUDA_SUCCESS &&
                reaches != 0) {
                pairs.push_back(pair);
            } else {
                log_no_access(pair);
            }
        }
    }
    return pairs;
}

// Pairs with a GPU that CUDA_VISIBLE_DEVICES hides from this process but perhaps not from its
// peers: memory of a hidden GPU can be opened.
std::vector<Pair> pairs_with_hidden(const std::vector<Gpu>& gpus)
{
    std::vector<std::string> hidden = cuda::gpus_of_system();
    std::erase_if(hidden, [&](const std::string& id) {
        return std::ranges::any_of(gpus, [&](const Gpu& gpu) { return gpu.id == id; });
    });
    std::vector<Pair> pairs;
    for (const Gpu& one : gpus) {
        for (const std::string& id : hidden) {
            pairs.push_back({one, {id, "the hidden GPU " + id}});
        }
    }
    return pairs;
}

// Until CUDA is initialised and has numbered the GPUs, this process may see any of them.
std::vector<Pair> pairs_of_system()
{
    const std::vector<std::string> ids = cuda::gpus_of_system();
    std::vector<Pair> pairs;
    for (size_t one = 0; one < ids.size(); ++one) {
        for (size_t other = one + 1; other < ids.size(); ++other) {
            pairs.push_back({{ids[one], "GPU " + ids[one]}, {ids[other], "GPU " + ids[other]}});
        }
    }
    return pairs;
}

// Also logs each pair.
void take_worst(Links& worst, const std::vector<Pair>& pairs)
{
    std::vector<std::pair<std::string, std::string>> ids;
    ids.reserve(pairs.size());
    for (const Pair& pair : pairs) {
        ids.emplace_back(pair.one.id, pair.other.id);
    }
    const auto links = cuda::links(ids);
    for (size_t i = 0; i < pairs.size(); ++i) {
        const auto& link = links[i];
        if (link && !link->peers) {
            log_no_access(pairs[i]);
            continue;
        }
        const double bandwidth = bandwidth_of(link);
        gdr_log(info, "%s and %s: across %s, %.0f GB/s by CUDA IPC where memory opens",
                pairs[i].one.name.c_str(), pairs[i].other.name.c_str(),
                !link          ? "a link that NVML does not tell"
                : link->nvlink ? "NVLink"
                               : "PCIe, for writing",
                bandwidth / 1e9);
        worst.bandwidth = std::min(worst.bandwidth, bandwidth);
        worst.reads = worst.reads && (!link || link->nvlink);
    }
}

Links measure(const cuda::Driver& driver)
{
    const cuda::NvmlSession nvml;
    Links worst{kOneGpu, true};
    if (cuda::initialised_driver() == nullptr) {
        take_worst(worst, pairs_of_system());
        return worst;
    }
    const std::vector<Gpu> gpus = visible_gpus(driver);
    std::vector<Pair> pairs = pairs_that_reach(driver, gpus);
    std::ranges::move(pairs_with_hidden(gpus), std::back_inserter(pairs));
    take_worst(worst, pairs);
    if (pairs.empty() && gpus.size() == 1) {
        gdr_log(info,
                "GPU 0: CUDA IPC with processes on the same GPU; the system shows no other (a "
                "container's may be kept from it)");
    }
    return worst;
}

} // namespace

Links worst_links(const cuda::Driver& driver)
{
    static const Links worst = measure(driver); // of the whole machine
    return worst;
}

// UCP counts the latency of a get twice, for the request and for the data. It may ask about gets if
// the interface offered them before the links were known.
abi::PerfEstimate estimate(const Cost& cost, abi::EpOperation operation)
{
    abi::PerfEstimate answer = {};
    answer.send_pre_overhead = cost.overhead;
    answer.latency = operation == abi::EpOperation::get_zcopy ? cost.latency / 2 : cost.latency;
    answer.bandwidth_shared = operation == abi::EpOperation::get_zcopy && !cost.links.reads
                                  ? std::min(cost.links.bandwidth, kReadAcrossPcie)
                                  : cost.links.bandwidth;
    answer.max_inflight_eps = SIZE_MAX;
    return answer;
}

} // namespace gdr::ipc
