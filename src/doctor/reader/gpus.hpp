// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The NVIDIA GPUs of a machine and their driver, as the kernel shows them.
#pragma once

#include "doctor/reader/pci.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gdr::doctor {

struct Gpu {
    topology::Place pci;
    std::string model;            // empty: the driver does not say
    std::string uuid;             // "GPU-..."; likewise
    std::optional<uint64_t> bar1; // bytes
};

struct GpuDriver {
    bool is_loaded = false;
    std::string version;  // "550.54.15"
    bool is_open = false; // NVIDIA's open kernel modules
    bool has_peermem = false;
    bool has_gpu_file = false; // /dev/nvidia0 or another
};

// In the order of their addresses.
std::vector<Gpu> find_gpus(const Root& root);
GpuDriver find_gpu_driver(const Root& root);

} // namespace gdr::doctor
