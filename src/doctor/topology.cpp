// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pairs of GPUs and HCAs.
#include "doctor/topology.hpp"

#include <cstdlib>

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

std::vector<Served> served(const Machine& machine)
{
    std::vector<topology::Place> gpus;
    for (const Gpu& gpu : machine.gpus) {
        gpus.push_back(gpu.pci);
    }
    std::vector<Served::By> all;
    std::vector<topology::Port> ports;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            if (hca.is_usable() && port.is_active()) {
                all.push_back({&hca, &port});
                ports.push_back({port.name, hca.pci, std::strtod(port.rate.c_str(), nullptr),
                                 port.is_ethernet()});
            }
        }
    }
    std::vector<Served> map;
    for (const topology::Assignment& assignment : topology::assign(gpus, ports)) {
        Served& gpu = map.emplace_back(Served{{}, assignment.distance});
        for (const size_t port : assignment.ports) {
            gpu.ports.push_back(all[port]);
        }
    }
    return map;
}

std::vector<std::string> map_of(const Machine& machine)
{
    const std::vector<Served> serving = served(machine);
    std::vector<std::string> map;
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
        const Gpu& gpu = machine.gpus[i];
        std::string line = "GPU " + std::to_string(i) + " " +
                           (gpu.model.empty() ? "" : gpu.model + " ") + gpu.pci.address;
        if (gpu.pci.numa_node >= 0) {
            line += " NUMA " + std::to_string(gpu.pci.numa_node);
        }
        for (const auto& [hca, port] : serving[i].ports) {
            line += "   " + port->name + " " + hca->pci.address + " " + port->link_layer + ", " +
                    port->rate + ", " + name_of(serving[i].distance);
        }
        map.push_back(line);
    }
    return map;
}

} // namespace gdr::doctor
