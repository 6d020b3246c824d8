// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which HCA is near which GPU, and which serves it.
#pragma once

#include "doctor/machine.hpp"
#include "topology/assignment.hpp"

#include <string>
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

// A line for each GPU: "GPU 0 NVIDIA H200 0000:1b:00.0 NUMA 0   mlx5_0:1 0000:19:00.0 InfiniBand,
// 400 Gb/sec (4X NDR), same switch".
std::vector<std::string> map_of(const Machine& machine);

} // namespace gdr::doctor
