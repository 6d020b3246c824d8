// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which HCA is near which GPU.
#pragma once

#include "doctor/machine.hpp"

#include <vector>

namespace gdr::doctor {

struct Pair {
    size_t gpu;
    const Hca* hca;
    Distance distance;
};

// Each GPU with each HCA that gdr can use.
std::vector<Pair> pairs(const Machine& machine);
// Those of a GPU that are nearest to it.
std::vector<Pair> nearest(const Machine& machine, size_t gpu);

} // namespace gdr::doctor
