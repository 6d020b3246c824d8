// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// PCI devices and the links between them, in sysfs.
#pragma once

#include "doctor/root.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct PciDevice {
    std::string address;              // "0000:3b:00.0"; empty: no PCI device
    std::string host_bridge;          // "pci0000:3a"
    std::vector<std::string> bridges; // addresses from the host bridge on
    int numa_node = -1;               // -1: unknown

    bool exists() const { return !address.empty(); }
};

// directory: a link to the device in sysfs, as /sys/class/infiniband/mlx5_0/device. An auxiliary
// device, or one without PCI, stands for the PCI device above it.
PciDevice read_pci(const Root& root, const Path& directory);

// Its directory in sysfs.
Path directory_of(const std::string& address);

// How far two devices are from each other.
enum class Distance { same_switch, same_host_bridge, same_numa_node, far, unknown };
Distance distance(const PciDevice& one, const PciDevice& other);
const char* name_of(Distance distance);

} // namespace gdr::doctor
