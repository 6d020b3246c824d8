// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading PCI devices.
#include "doctor/pci.hpp"

#include <algorithm>
#include <cstdlib>

namespace gdr::doctor {
namespace {

// "0000:3b:00.0", or "10000:e1:00.0" below a VMD
bool is_address(const std::string& name)
{
    return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
           name[name.size() - 8] == ':';
}

} // namespace

PciDevice read_pci(const Root& root, const Path& directory)
{
    PciDevice device;
    Path place;
    if (!root.exists(directory)) {
        return device;
    }
    for (Path above = "/"; const Path& part : root.resolved(directory)) {
        above /= part;
        const std::string name = part;
        if (name.starts_with("pci") && device.host_bridge.empty()) {
            device.host_bridge = name;
        } else if (is_address(name)) {
            if (device.exists()) {
                device.bridges.push_back(device.address);
            }
            device.address = name;
            place = above;
        }
    }
    const std::string node = root.line(place / "numa_node");
    if (device.exists() && !node.empty()) {
        device.numa_node = std::atoi(node.c_str());
    }
    return device;
}

Path directory_of(const std::string& address)
{
    return "/sys/bus/pci/devices/" + address;
}

Distance distance(const PciDevice& one, const PciDevice& other)
{
    if (!one.exists() || !other.exists()) {
        return Distance::unknown;
    }
    // A root port leads to one device, a switch or a card.
    const bool share_bridge =
        std::ranges::find_first_of(one.bridges, other.bridges) != one.bridges.end();
    if (share_bridge || one.address == other.address) {
        return Distance::same_switch;
    }
    if (one.host_bridge == other.host_bridge) {
        return Distance::same_host_bridge;
    }
    if (one.numa_node < 0 || other.numa_node < 0) {
        return Distance::unknown; // as in virtual machines
    }
    return one.numa_node == other.numa_node ? Distance::same_numa_node : Distance::far;
}

const char* name_of(Distance distance)
{
    switch (distance) {
    case Distance::same_switch:
        return "same switch";
    case Distance::same_host_bridge:
        return "same host bridge";
    case Distance::same_numa_node:
        return "same NUMA node";
    case Distance::far:
        return "another NUMA node";
    case Distance::unknown:
        return "unknown distance";
    }
    return "";
}

} // namespace gdr::doctor
