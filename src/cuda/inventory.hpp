// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Facts about this machine's GPUs that need no initialised CUDA: from NVIDIA's management library,
// and from /proc and /sys.
#pragma once

#include <string>
#include <vector>

namespace gdr::cuda {

// The PCI addresses of the system's GPUs, as sysfs spells them, including GPUs that
// CUDA_VISIBLE_DEVICES hides. root: replaces "/" in tests.
std::vector<std::string> gpus_of_system(const std::string& root = "");

// Why this process can use no GPU, in one line; empty if it may.
std::string why_no_gpu();

// Which methods NVIDIA's kernel modules support for RDMA to GPU memory, as far as they show it.
struct KernelSupport {
    bool dmabuf;  // only the open modules export it
    bool peermem; // nvidia-peermem or its predecessor is loaded
};

// Both are true if the system shows nothing: in a sandbox, or with emulated GPUs.
KernelSupport kernel_support(const std::string& root = "");

} // namespace gdr::cuda
