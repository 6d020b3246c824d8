// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which HCA is near which GPU, and which serves it.
#pragma once

#include "doctor/machine.hpp"
#include "topology/assignment.hpp"

#include <vector>

namespace gdr::doctor {

struct Pair {
    size_t gpu;
    const Hca* hca;
    topology::Distance distance;
};

// Each GPU with each HCA that gdr can use.
std::vector<Pair> pairs(const Machine& machine);

struct Served {
    struct By {
        const Hca* hca;
        const Port* port;
    };
    std::vector<By> ports;
    topology::Distance distance;
};

// Which ports serve each GPU.
std::vector<Served> served(const Machine& machine);

} // namespace gdr::doctor
