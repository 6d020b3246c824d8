// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading places.
#include "topology/place.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace gdr::topology {
namespace {

// "0000:3b:00.0", or "10000:e1:00.0" below a VMD
bool is_address(const std::string& name)
{
    return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
           name[name.size() - 8] == ':';
}

// How many bridges lead to both.
int shared_bridges(const Place& one, const Place& other)
{
    const auto parted = std::ranges::mismatch(one.bridges, other.bridges);
    return static_cast<int>(parted.in1 - one.bridges.begin());
}

} // namespace

Place parse_place(const std::filesystem::path& directory)
{
    Place place;
    for (const std::string name : directory) {
        if (name.starts_with("pci") && place.host_bridge.empty()) {
            place.host_bridge = name;
        } else if (is_address(name)) {
            if (place.exists()) {
                place.bridges.push_back(place.address);
            }
            place.address = name;
        }
    }
    return place;
}

Place place_of(const std::filesystem::path& device)
{
    std::error_code failed;
    std::filesystem::path directory = std::filesystem::canonical(device, failed);
    if (failed) {
        return {};
    }
    Place place = parse_place(directory);
    while (place.exists() && directory.filename() != place.address) {
        directory = directory.parent_path();
    }
    std::ifstream(directory / "numa_node") >> place.numa_node;
    return place;
}

Place place_of_pci(const std::string& bus_id)
{
    return bus_id.empty() ? Place()
                          : place_of(std::filesystem::path("/sys/bus/pci/devices") / bus_id);
}

Distance distance(const Place& one, const Place& other)
{
    if (!one.exists() || !other.exists()) {
        return Distance::unknown;
    }
    // A root port leads to one device, a switch or a card.
    if (one.address == other.address || shared_bridges(one, other) > 0) {
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

std::pair<Distance, int> remoteness(const Place& one, const Place& other)
{
    return {distance(one, other), -shared_bridges(one, other)};
}

} // namespace gdr::topology
