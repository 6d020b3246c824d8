// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading PCI devices.
#include "doctor/reader/pci.hpp"

#include <cstdlib>

namespace gdr::doctor {

topology::Place read_place(const Root& root, const Path& directory)
{
    if (!root.exists(directory)) {
        return {};
    }
    topology::Place place = topology::parse_place(root.resolved(directory));
    const std::string node = root.line(directory_of(place.address) / "numa_node");
    if (place.exists() && !node.empty()) {
        place.numa_node = std::atoi(node.c_str());
    }
    return place;
}

Path directory_of(const std::string& address)
{
    return "/sys/bus/pci/devices/" + address;
}

} // namespace gdr::doctor
