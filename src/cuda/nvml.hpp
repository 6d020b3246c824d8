// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What connects two GPUs, as NVIDIA's management library (libnvidia-ml.so.1, found at run time)
// tells. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gdr::cuda {

struct Link {
    bool nvlink;      // else PCIe
    double bandwidth; // bytes per second one way, of the wires
    bool peers;       // whether the one reads the other's memory
};

class Nvml;

// Keeps the library initialised between several of the functions below: that takes 12 ms each time.
class NvmlSession {
  public:
    NvmlSession();
    NvmlSession(const NvmlSession&) = delete;
    NvmlSession& operator=(const NvmlSession&) = delete;
    ~NvmlSession();

  private:
    const std::unique_ptr<const Nvml> nvml_;
};

// The link of each pair of GPUs with these PCI addresses; nothing where the library is missing or
// does not know. Loads and initialises the library for the length of the call, as the next does.
std::vector<std::optional<Link>>
links(const std::vector<std::pair<std::string, std::string>>& pci_bus_ids);

// The PCI addresses of the system's GPUs, as sysfs spells them, those too that CUDA_VISIBLE_DEVICES
// hides; none where the library is missing.
std::vector<std::string> gpus_of_nvml();

} // namespace gdr::cuda
