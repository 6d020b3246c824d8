// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The rule.
#include "topology/assignment.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace gdr::topology {
namespace {

// Gb/s: ports of less are those of a front end. Data of HDR, with 64 bits in 66, has 194.
constexpr double kSlow = 190;

// Ports, in the order of their PCI addresses.
using Ports = std::vector<size_t>;

// Leaves ports out, unless they are all that there are.
void leave_out(Ports* candidates, const std::function<bool(size_t)>& is_unwanted)
{
    Ports left = *candidates;
    std::erase_if(left, is_unwanted);
    if (!left.empty()) {
        *candidates = left;
    }
}

Ports find_candidates(const std::vector<Port>& ports)
{
    Ports candidates(ports.size());
    std::iota(candidates.begin(), candidates.end(), 0);
    std::ranges::stable_sort(candidates, {}, [&](size_t i) { return ports[i].place.address; });
    if (!std::ranges::all_of(ports, &Port::ethernet)) {
        leave_out(&candidates, [&](size_t i) { return ports[i].ethernet; });
    }
    leave_out(&candidates, [&](size_t i) { return ports[i].rate < kSlow; });
    leave_out(&candidates,
              [&](size_t i) { return ports[i].name.find("bond") != std::string::npos; });
    return candidates;
}

// The nearest candidates, and the fastest of these.
Ports best_of(const Ports& candidates, const Place& gpu, const std::vector<Port>& ports)
{
    const auto merit = [&](size_t i) {
        return std::make_pair(remoteness(gpu, ports[i].place), -ports[i].rate);
    };
    Ports best = candidates;
    if (!best.empty()) {
        const auto most = merit(*std::ranges::min_element(candidates, {}, merit));
        std::erase_if(best, [&](size_t i) { return merit(i) != most; });
    }
    return best;
}

} // namespace

std::vector<Assignment> assign(const std::vector<Place>& gpus, const std::vector<Port>& ports)
{
    const Ports candidates = find_candidates(ports);
    std::vector<Ports> best;
    best.reserve(gpus.size());
    for (const Place& gpu : gpus) {
        best.push_back(best_of(candidates, gpu, ports));
    }
    std::vector<unsigned> users(ports.size());
    std::vector<Assignment> assignments(gpus.size());
    for (size_t gpu = 0; gpu < gpus.size() && !candidates.empty(); ++gpu) {
        const auto rivals = static_cast<size_t>(std::ranges::count(best, best[gpu]));
        Ports& chosen = assignments[gpu].ports;
        chosen = best[gpu];
        std::ranges::stable_sort(chosen, {}, [&](size_t i) { return users[i]; });
        chosen.resize(std::max<size_t>(1, chosen.size() / rivals));
        for (const size_t port : chosen) {
            ++users[port];
        }
        assignments[gpu].distance = distance(gpus[gpu], ports[chosen[0]].place);
    }
    return assignments;
}

} // namespace gdr::topology
