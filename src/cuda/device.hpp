// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA devices of this process and their features for RDMA.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace gdr::cuda {

struct Device {
    CUdevice handle;        // also the ordinal, from 0, after CUDA_VISIBLE_DEVICES is applied
    std::string name;       // "NVIDIA H200"
    std::string pci_bus_id; // "0000:3b:00.0", as sysfs spells it
    std::string uuid; // "GPU-" and 32 hexadecimal digits with hyphens, as nvidia-smi prints it
    size_t memory;    // bytes

    bool dmabuf;         // memory can be exported as a dmabuf
    bool shared;         // the compute mode allows any number of processes to create a context
    bool gpudirect_rdma; // supports GPUDirect RDMA, by dmabuf or nvidia-peermem

    // Whether code on the GPU sees an HCA's writes in order, or needs a flush, which the device may
    // lack.
    bool sees_rdma_writes;
    bool flushes_rdma_writes;
};

// One device. Creates no context. Throws Error. Any thread.
Device device(const Driver& driver, CUdevice handle);

// All devices, by ordinal. Creates no context. Throws Error. Any thread.
std::vector<Device> devices(const Driver& driver);

} // namespace gdr::cuda
