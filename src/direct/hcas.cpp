// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens HCAs, and tells the nearest.
#include "direct/hcas.hpp"

#include "cuda/device.hpp"
#include "log/log.hpp"
#include "verbs/fork.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <system_error>

namespace gdr::direct {
namespace {

namespace fs = std::filesystem;

int numa_node(const fs::path& device)
{
    int node = -1;
    std::ifstream(device / "numa_node") >> node;
    return node;
}

} // namespace

unsigned nearness(const std::string& one, const std::string& other, const fs::path& devices)
{
    std::error_code error_one, error_other;
    const fs::path path = fs::canonical(devices / one, error_one),
                   other_path = fs::canonical(devices / other, error_other);
    if (one.empty() || other.empty() || error_one || error_other) {
        return 0;
    }
    const auto parted =
        std::mismatch(path.begin(), path.end(), other_path.begin(), other_path.end());
    const auto common = static_cast<unsigned>(std::distance(path.begin(), parted.first));
    const int node = numa_node(path);
    return 2 * common + (node >= 0 && node == numa_node(other_path) ? 1 : 0);
}

Hcas::Hcas(CUdevice gpu)
{
    const std::vector<std::string> names = verbs::device_names(&obstacle_);
    // It fails if something has been registered already; then its owner has decided.
    if (!names.empty() && verbs::fork_init_needed()) {
        verbs::fork_init();
    }
    for (const std::string& name : names) {
        std::string reason;
        try {
            auto hca = std::make_unique<Hca>(name);
            if (gpu < 0 || hca->takes(gpu)) {
                all_.push_back(std::move(hca));
                continue;
            }
            reason = name + " does not take the memory of GPU " + std::to_string(gpu);
        } catch (const std::exception& error) {
            reason = error.what();
        }
        gdr_log(diag, "not used: %s", reason.c_str());
        obstacle_ += (obstacle_.empty() ? "" : "; ") + reason;
    }
}

std::vector<unsigned> Hcas::nearest(CUdevice gpu) const
{
    std::vector<unsigned> found(all_.size());
    std::iota(found.begin(), found.end(), 0);
    if (gpu < 0) {
        return found;
    }
    const std::string place = cuda::device(*cuda::open_driver(), gpu).pci_bus_id;
    std::vector<unsigned> near;
    std::ranges::transform(all_, std::back_inserter(near), [&](const auto& hca) {
        return nearness(hca->device().sysfs().pci_bus_id(), place);
    });
    const unsigned most = near.empty() ? 0 : *std::ranges::max_element(near);
    std::erase_if(found, [&](unsigned i) { return near[i] < most; });
    return found;
}

std::vector<verbs::MemoryRegion> Hcas::register_memory(uintptr_t address, size_t length)
{
    std::vector<verbs::MemoryRegion> regions;
    for (const auto& hca : all_) {
        regions.push_back(hca->register_memory(address, length));
    }
    return regions;
}

} // namespace gdr::direct
