// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether an HCA reads and writes the memory of each GPU directly, and by which kernel interface.
#pragma once

#include "cuda/driver.hpp"
#include "verbs/device.hpp"

#include <map>
#include <string>
#include <vector>

namespace gdr::mem {

enum class Method {
    untried, // not decided yet: the first registration decides
    none,    // device memory is staged through host memory
    dmabuf,
    peermem, // ibv_reg_mr of the device address, by nvidia-peermem; memory of pools is staged
};

const char* to_string(Method method);

// Whether an HCA that this process opened takes device memory by peermem. Then some of it can only
// be staged: see cuda::rdma_capable(). Any thread.
bool peermem_in_use();

// How one range of device memory was registered, or why not.
struct DeviceRegistration {
    verbs::MemoryRegion mr;
    Method method = Method::none;
    int error = 0;     // errno of the last attempt
    std::string cause; // of every attempt: "dmabuf: ...; peermem: ..."
};

// Registers [start, start + length) of device memory by the given method; untried: by whichever
// works, dmabuf first.
DeviceRegistration register_device_memory(const cuda::Driver& driver, const verbs::Device& hca,
                                          ibv_pd* pd, uintptr_t start, size_t length, int access,
                                          Method method);

// The methods found for one HCA. Not thread safe.
class GpuDirect {
  public:
    // Tries a real registration on every GPU whose primary context is active, or on the first GPU
    // if none is (its context is made for the test and released). Without CUDA there are no GPUs.
    GpuDirect(const verbs::Device& hca, ibv_pd* pd);

    // Some GPU's memory can be registered, as far as is known.
    bool possible() const;

    Method method(CUdevice gpu) const;
    void decide(CUdevice gpu, Method method);

    // What was found at construction, a line for each GPU tried.
    const std::vector<std::string>& report() const { return report_; }

  private:
    void try_gpu(const cuda::Driver& driver, CUdevice gpu, const std::string& name,
                 const verbs::Device& hca, ibv_pd* pd);

    std::map<CUdevice, Method> methods_;
    std::vector<std::string> report_;
};

} // namespace gdr::mem
