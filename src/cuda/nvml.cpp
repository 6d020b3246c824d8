// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The few NVML functions that are used are declared here, because NVML's header comes with a
// toolkit that nothing else needs.
#include "cuda/nvml.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include <dlfcn.h>

namespace gdr::cuda {

namespace {

using NvmlDevice = struct nvmlDevice_st*;

struct FieldValue { // nvmlFieldValue_t
    unsigned field;
    unsigned scope;
    long long timestamp;
    long long latency;
    int value_type;
    int result;
    union {
        double real;
        unsigned whole;
        unsigned long long long_whole;
    };
};
static_assert(sizeof(FieldValue) == 40);

// Speeds in MB/s: of the link in scope, and the common speed of the links on GPUs before Hopper.
// Newer GPUs return 0 for the common speed.
constexpr unsigned kNvlinkSpeed = 164;        // NVML_FI_DEV_NVLINK_GET_SPEED
constexpr unsigned kNvlinkCommonSpeed = 90;   // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
constexpr unsigned kNvlinkCount = 91;         // NVML_FI_DEV_NVLINK_LINK_COUNT
constexpr int kP2pRead = 0, kP2pByNvlink = 2; // NVML_P2P_CAPS_INDEX_*
constexpr int kSuccess = 0, kEnabled = 1;

struct PciInfo { // nvmlPciInfo_t
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
};
static_assert(sizeof(PciInfo) == 68);

std::string as_sysfs_spells(const PciInfo& info)
{
    char text[32];
    snprintf(text, sizeof(text), "%04x:%02x:%02x.0", info.domain, info.bus, info.device);
    return text;
}

} // namespace

class Nvml {
  public:
    Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL))
    {
        initialised_ = call<int()>("nvmlInit_v2") == kSuccess;
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml()
    {
        if (initialised_) {
            call<int()>("nvmlShutdown");
        }
        if (library_ != nullptr) {
            dlclose(library_);
        }
    }

    explicit operator bool() const { return initialised_; }

    NvmlDevice device(const std::string& pci_bus_id) const
    {
        NvmlDevice device = nullptr;
        return call<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2",
                                                   pci_bus_id.c_str(), &device) == kSuccess
                   ? device
                   : nullptr;
    }

    std::vector<std::string> pci_bus_ids() const
    {
        unsigned count = 0;
        if (call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) != kSuccess) {
            return {};
        }
        std::vector<std::string> all;
        for (unsigned index = 0; index < count; ++index) {
            NvmlDevice device = nullptr;
            PciInfo info{};
            if (call<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2", index, &device) ==
                    kSuccess &&
                call<int(NvmlDevice, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &info) ==
                    kSuccess) {
                all.push_back(as_sysfs_spells(info));
            }
        }
        return all;
    }

    // capability: kP2p...
    bool p2p(NvmlDevice one, NvmlDevice other, int capability) const
    {
        int status = -1;
        return call<int(NvmlDevice, NvmlDevice, int, int*)>("nvmlDeviceGetP2PStatus", one, other,
                                                            capability, &status) == kSuccess &&
               status == 0;
    }

    // The sum of all links that are up.
    double nvlink_bandwidth(NvmlDevice device) const
    {
        double megabytes = 0;
        const unsigned links = field(device, kNvlinkCount);
        for (unsigned link = 0; link < links; ++link) {
            int state = 0;
            if (call<int(NvmlDevice, unsigned, int*)>("nvmlDeviceGetNvLinkState", device, link,
                                                      &state) != kSuccess ||
                state != kEnabled) {
                continue;
            }
            const unsigned own = field(device, kNvlinkSpeed, link);
            megabytes += own != 0 ? own : field(device, kNvlinkCommonSpeed);
        }
        return megabytes * 1e6;
    }

    double pcie_bandwidth(NvmlDevice device) const
    {
        unsigned generation = 0, width = 0;
        if (call<int(NvmlDevice, unsigned*)>("nvmlDeviceGetMaxPcieLinkGeneration", device,
                                             &generation) != kSuccess ||
            call<int(NvmlDevice, unsigned*)>("nvmlDeviceGetCurrPcieLinkWidth", device, &width) !=
                kSuccess) {
            return 0;
        }
        constexpr double kLane[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
        return width * kLane[std::min<size_t>(generation, std::size(kLane) - 1)];
    }

  private:
    // 0: NVML does not report it.
    unsigned field(NvmlDevice device, unsigned number, unsigned scope = 0) const
    {
        FieldValue value{};
        value.field = number;
        value.scope = scope;
        return call<int(NvmlDevice, int, FieldValue*)>("nvmlDeviceGetFieldValues", device, 1,
                                                       &value) == kSuccess &&
                       value.result == kSuccess
                   ? value.whole
                   : 0;
    }

    // -1: the function does not exist.
    template <class Signature, class... Arguments>
    int call(const char* name, Arguments... arguments) const
    {
        void* function = library_ != nullptr ? dlsym(library_, name) : nullptr;
        return function != nullptr ? reinterpret_cast<Signature*>(function)(arguments...) : -1;
    }

    void* library_;
    bool initialised_ = false;
};

NvmlSession::NvmlSession() : nvml_(std::make_unique<const Nvml>()) {}
NvmlSession::~NvmlSession() = default;

std::vector<std::optional<Link>>
links(const std::vector<std::pair<std::string, std::string>>& pci_bus_ids)
{
    std::vector<std::optional<Link>> links(pci_bus_ids.size());
    if (links.empty()) {
        return links;
    }
    const Nvml nvml;
    // Each link takes a query of its own, and a GPU is in many pairs.
    std::map<NvmlDevice, double> nvlinks;
    const auto nvlink_bandwidth = [&](NvmlDevice device) {
        const auto [found, is_new] = nvlinks.try_emplace(device);
        if (is_new) {
            found->second = nvml.nvlink_bandwidth(device);
        }
        return found->second;
    };
    for (size_t i = 0; nvml && i < links.size(); ++i) {
        const NvmlDevice one = nvml.device(pci_bus_ids[i].first);
        const NvmlDevice other = nvml.device(pci_bus_ids[i].second);
        if (one == nullptr || other == nullptr) {
            continue;
        }
        const bool nvlink = nvml.p2p(one, other, kP2pByNvlink);
        const double bandwidth =
            nvlink ? std::min(nvlink_bandwidth(one), nvlink_bandwidth(other))
                   : std::min(nvml.pcie_bandwidth(one), nvml.pcie_bandwidth(other));
        if (bandwidth > 0) {
            links[i] = Link{nvlink, bandwidth, nvml.p2p(one, other, kP2pRead)};
        }
    }
    return links;
}

std::vector<std::string> gpus_of_nvml()
{
    const Nvml nvml;
    return nvml ? nvml.pci_bus_ids() : std::vector<std::string>();
}

} // namespace gdr::cuda
