// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pairs of GPUs and HCAs.
#include "doctor/topology.hpp"

#include <algorithm>

namespace gdr::doctor {

std::vector<Pair> pairs(const Machine& machine)
{
    std::vector<Pair> result;
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        for (const Hca& hca : machine.hcas) {
            if (hca.is_usable()) {
                result.push_back({gpu, &hca, distance(machine.gpus[gpu].pci, hca.pci)});
            }
        }
    }
    return result;
}

std::vector<Pair> nearest(const Machine& machine, size_t gpu)
{
    std::vector<Pair> result = pairs(machine);
    std::erase_if(result, [&](const Pair& pair) { return pair.gpu != gpu; });
    const auto best = std::ranges::min_element(result, {}, &Pair::distance);
    if (best != result.end()) {
        const Distance distance = best->distance;
        std::erase_if(result, [&](const Pair& pair) { return pair.distance != distance; });
    }
    return result;
}

} // namespace gdr::doctor
