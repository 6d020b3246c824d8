// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which ports of HCAs serve which GPU (docs/howto/choose-an-hca.md has the rule).
#pragma once

#include "topology/place.hpp"

#include <string>
#include <vector>

namespace gdr::topology {

struct Port {
    std::string name; // "mlx5_0:1"
    Place place;
    double rate; // Gb/s
    bool ethernet;
};

struct Assignment {
    std::vector<size_t> ports; // all of the same distance; none if there are no ports
    Distance distance = Distance::unknown;
};

// One for each GPU. ports: those that can be used.
std::vector<Assignment> assign(const std::vector<Place>& gpus, const std::vector<Port>& ports);

} // namespace gdr::topology
