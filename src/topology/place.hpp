// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Where a PCI device is, and how far two devices are from each other.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gdr::topology {

struct Place {
    std::string address;              // "0000:3b:00.0"; empty: no PCI device
    std::string host_bridge;          // "pci0000:3a"
    std::vector<std::string> bridges; // addresses from the host bridge on
    int numa_node = -1;               // -1: unknown

    bool exists() const { return !address.empty(); }
};

// From the device's directory in sysfs, without links; all but the NUMA node. A device that is not
// of PCI, such as an auxiliary one, stands for the PCI device above it.
Place parse_place(const std::filesystem::path& directory);

// Of a device of this machine, by a path in sysfs that leads to it.
Place place_of(const std::filesystem::path& device);

// By a bus id such as "0000:3b:00.0". Empty: nowhere.
Place place_of_pci(const std::string& bus_id);

enum class Distance { same_switch, same_host_bridge, same_numa_node, far, unknown };
Distance distance(const Place& one, const Place& other);
const char* name_of(Distance distance);

// To compare with that of other devices: less is nearer. Within a switch of several levels the
// number of bridges that lead to both decides.
std::pair<Distance, int> remoteness(const Place& one, const Place& other);

} // namespace gdr::topology
