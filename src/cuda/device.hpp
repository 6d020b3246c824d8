// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA devices of this process and what they can do for an HCA.
#pragma once

#include "cuda/driver.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace gdr::cuda {

struct Device {
    CUdevice handle;  // the ordinal too: CUDA numbers devices from 0, after CUDA_VISIBLE_DEVICES
    std::string name; // "NVIDIA H200"
    std::string pci_bus_id; // "0000:3b:00.0", as sysfs spells it
    std::string uuid; // "GPU-" and 32 hexadecimal digits with hyphens, as nvidia-smi prints it
    size_t memory;    // bytes

    bool dmabuf;         // memory can be exported as a dmabuf
    bool shared;         // compute mode: any process may make a context, which takes it from nobody
    bool gpudirect_rdma; // GPUDirect RDMA at all, be it by dmabuf or nvidia-peermem

    // Whether what runs on it sees an HCA's writes in order, or has to be made to by a flush, which
    // it may lack.
    bool sees_rdma_writes;
    bool flushes_rdma_writes;
};

// One of them. Creates no context. Throws Error. Any thread.
Device device(const Driver& driver, CUdevice handle);

// All devices, by ordinal. Creates no context. Throws Error. Any thread.
std::vector<Device> devices(const Driver& driver);

} // namespace gdr::cuda
