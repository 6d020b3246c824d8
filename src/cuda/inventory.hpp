// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What can be told of the GPUs of this machine without initialising CUDA: by NVIDIA's management
// library, and by what its kernel modules show in /proc and /sys.
#pragma once

#include <string>
#include <vector>

namespace gdr::cuda {

// The PCI addresses of the system's GPUs, as sysfs spells them, including those that
// CUDA_VISIBLE_DEVICES hides. root: of /proc, for tests.
std::vector<std::string> gpus_of_system(const std::string& root = "");

// Why this process can use none, in a line; empty where it may.
std::string why_no_gpu();

// How NVIDIA's kernel modules let HCAs at a GPU's memory, as far as they show it.
struct KernelSupport {
    bool dmabuf;  // the open ones alone export it
    bool peermem; // nvidia-peermem, or its forerunner, is loaded
};

// Both where nothing is shown: in a sandbox, or with emulated GPUs.
KernelSupport kernel_support(const std::string& root = "");

} // namespace gdr::cuda
