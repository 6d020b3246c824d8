// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Rates of ports and of PCIe, in sysfs.
#include "doctor/routes.hpp"

#include "doctor/topology.hpp"

#include <algorithm>
#include <cstdlib>

namespace gdr::doctor {
namespace {

// An idle GPU lowers the speed of its link: what it can be counts. Lanes do not change.
enum class Speed { now, most };

void add_pcie(const Root& root, const std::string& name, const topology::Place& device, Speed speed,
              std::vector<Link>* links)
{
    const Path directory = directory_of(device.address);
    const double rate = rate_of_lanes(
        root.line(directory / (speed == Speed::now ? "current_link_speed" : "max_link_speed")),
        root.line(directory / "current_link_width"));
    if (device.exists() && rate > 0) {
        links->push_back({"the PCIe of " + name, rate});
    }
}

// Of the GPU that the port serves, or else of one that is nearest.
void add_gpu(const Machine& machine, const Hca& hca, const std::vector<Served>& serving,
             Route* route)
{
    const Gpu* chosen = nullptr;
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
        const bool is_served = std::ranges::any_of(
            serving[i].ports, [&](const Served::By& by) { return by.port->name == route->port; });
        if (is_served) {
            chosen = &machine.gpus[i];
            break;
        }
        if (chosen == nullptr || topology::remoteness(machine.gpus[i].pci, hca.pci) <
                                     topology::remoteness(chosen->pci, hca.pci)) {
            chosen = &machine.gpus[i];
        }
    }
    if (chosen != nullptr) {
        route->gpu = chosen->pci.address;
        route->distance = topology::name_of(topology::distance(chosen->pci, hca.pci));
        add_pcie(machine.root, "GPU " + chosen->pci.address, chosen->pci, Speed::most,
                 &route->of_gpu);
    }
}

} // namespace

std::vector<Route> routes(const Machine& machine)
{
    std::vector<Route> all;
    const std::vector<Served> serving = served(machine);
    // The devices of such a machine are emulated, and need no files.
    const bool of_other_machine = machine.root.facts().environment.contains("GDR_MACHINE");
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            const bool may_use = hca.is_usable() || (of_other_machine && hca.refusal.empty());
            if (!may_use || !port.is_active()) {
                continue;
            }
            Route route;
            route.port = port.name;
            if (rate_of_port(port.rate) > 0) {
                route.of_hca.push_back({"the port " + port.name, rate_of_port(port.rate)});
            }
            add_pcie(machine.root, hca.name, hca.pci, Speed::now, &route.of_hca);
            add_gpu(machine, hca, serving, &route);
            all.push_back(route);
        }
    }
    return all;
}

double rate_of_port(const std::string& rate)
{
    return rate.find("Gb/sec") == std::string::npos ? 0 : std::strtod(rate.c_str(), nullptr) / 8;
}

double rate_of_lanes(const std::string& speed, const std::string& lanes)
{
    const double transfers = std::strtod(speed.c_str(), nullptr); // 0: "Unknown"
    const double coding = transfers < 8 ? 0.8 : 128.0 / 130;
    return transfers * coding / 8 * std::strtod(lanes.c_str(), nullptr);
}

} // namespace gdr::doctor
