// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether an HCA reads and writes the memory of each GPU directly, and by which kernel interface.
#pragma once

#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "verbs/device.hpp"

#include <map>
#include <memory>
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

// Whether no HCA that this process opened takes memory of a GPU, though some take others'. Then
// that GPU's can only be staged. Any thread.
bool only_others_taken(CUdevice gpu);

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
    // Tries a real registration on every GPU whose primary context is active. If none of these can
    // be used, then on others until one can: of each model one, since they fare alike, and none
    // that a context would take from its owner (compute mode). Without CUDA there are no GPUs. One
    // that sees an HCA's writes only after a flush, and has none, is not used.
    GpuDirect(const verbs::Device& hca, ibv_pd* pd);

    // Some GPU's memory can be registered, as far as is known; where none could be tried, as far as
    // GPU and HCA tell.
    bool possible() const;

    // To be called before memory is registered: releases the context that was made for the test. It
    // is kept until then because the domains of all HCAs are opened one after the other, and making
    // a context takes long.
    void end_test() { test_context_.reset(); }

    Method method(CUdevice gpu) const;
    void decide(CUdevice gpu, Method method);

    // What was found at construction, a line for each GPU tried.
    const std::vector<std::string>& report() const { return report_; }

  private:
    void try_gpu(const cuda::Driver& driver, const cuda::Device& gpu, const verbs::Device& hca,
                 ibv_pd* pd);
    bool usable() const; // of a GPU that was tried
    static Method try_memory(const cuda::Driver& driver, CUcontext context,
                             const verbs::Device& hca, ibv_pd* pd, std::string* cause);

    std::map<CUdevice, Method> methods_;
    bool expected_ = false; // of a GPU that could not be tried
    std::shared_ptr<cuda::PrimaryContext> test_context_;
    std::vector<std::string> report_;
};

} // namespace gdr::mem
