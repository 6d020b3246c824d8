// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What lies between the network and the memory of a host and a GPU, and how fast each part can be.
#pragma once

#include "doctor/machine.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct Link {
    std::string name; // "the port mlx5_0:1"
    double rate;      // GB/s
};

struct Route {
    std::string port; // "mlx5_0:1"
    std::string gpu;  // the PCI address of the GPU that the port serves, or is nearest; empty: none
    std::string distance;     // between both, in topology's words
    std::vector<Link> of_hca; // the port, the HCA's PCIe
    std::vector<Link> of_gpu; // the GPU's PCIe
};

// One for each active port of a usable HCA. What the system does not show is left out.
std::vector<Route> routes(const Machine& machine);

// "200 Gb/sec (4X HDR)" in GB/s; 0: none is told.
double rate_of_port(const std::string& rate);
// Of "16.0 GT/s PCIe" and "16", in GB/s; 0 likewise.
double rate_of_lanes(const std::string& speed, const std::string& lanes);

} // namespace gdr::doctor
