// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens HCAs, and tells the nearest.
#include "direct/hcas.hpp"

#include "cuda/device.hpp"
#include "log/log.hpp"
#include "topology/place.hpp"
#include "verbs/fork.hpp"

#include <algorithm>
#include <numeric>

namespace gdr::direct {
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
    const topology::Place place =
        topology::place_of_pci(cuda::device(*cuda::open_driver(), gpu).pci_bus_id);
    std::vector<std::pair<topology::Distance, int>> remoteness;
    std::ranges::transform(all_, std::back_inserter(remoteness), [&](const auto& hca) {
        return topology::remoteness(topology::place_of_pci(hca->device().sysfs().pci_bus_id()),
                                    place);
    });
    if (!found.empty()) {
        const auto least = *std::ranges::min_element(remoteness);
        std::erase_if(found, [&](unsigned i) { return remoteness[i] != least; });
    }
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
