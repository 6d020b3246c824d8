// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The links between two GPUs, as reported by NVIDIA's management library (libnvidia-ml.so.1, opened
// at run time). Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gdr::cuda {

struct Link {
    bool nvlink;      // false: PCIe
    double bandwidth; // bytes per second of the wires, one way
    bool peers;       // the first GPU can read the other's memory
};

class Nvml;

// Keeps the library initialised across several calls of the functions below; initialising it takes
// 12 ms.
class NvmlSession {
  public:
    NvmlSession();
    NvmlSession(const NvmlSession&) = delete;
    NvmlSession& operator=(const NvmlSession&) = delete;
    ~NvmlSession();

  private:
    const std::unique_ptr<const Nvml> nvml_;
};

// The link of each pair of GPUs, given by PCI addresses; nothing if the library is missing or does
// not know. This function and the next load and initialise the library for the length of the call.
std::vector<std::optional<Link>>
links(const std::vector<std::pair<std::string, std::string>>& pci_bus_ids);

// The PCI addresses of the system's GPUs, as sysfs spells them, including GPUs that
// CUDA_VISIBLE_DEVICES hides. Empty if the library is missing.
std::vector<std::string> gpus_of_nvml();

} // namespace gdr::cuda
