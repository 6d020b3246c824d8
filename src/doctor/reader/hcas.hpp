// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The HCAs of a machine, in sysfs: no device is opened.
#pragma once

#include "doctor/reader/pci.hpp"
#include "doctor/reader/providers.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct Port {
    std::string name;  // "mlx5_0:1"
    Path directory;    // in sysfs
    std::string state; // "ACTIVE"
    std::string link_layer;
    std::string rate;

    bool is_active() const { return state == "ACTIVE"; }
    bool is_ethernet() const { return link_layer == "Ethernet"; }
};

struct Hca {
    std::string name;
    topology::Place pci;
    std::string driver;
    const Provider* provider = nullptr;
    std::string refusal; // why gdr leaves it out, whatever its ports are; empty: it does not
    std::string instead; // what to use then
    bool manages_switches = false;
    std::string uverbs; // its device file; empty: the kernel has none
    bool has_uverbs_file = false;
    bool may_use = false;
    std::vector<Port> ports;

    bool is_usable() const;
};

std::vector<Hca> find_hcas(const Root& root);
bool any_usable(const std::vector<Hca>& hcas);

} // namespace gdr::doctor
