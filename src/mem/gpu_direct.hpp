// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether an HCA reads and writes the memory of each GPU directly, and by which kernel interface.
#pragma once

#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "verbs/device.hpp"

#include <map>
#include <string>

namespace gdr::mem {

enum class Method {
    untried, // not decided yet
    none,    // device memory is staged through host memory
    dmabuf,
    dmabuf_by_pcie, // the HCA accepts only the PCIe mapping: cuda::DmabufMapping
    peermem,        // ibv_reg_mr of the device address by nvidia-peermem; pool memory is staged
};

const char* to_string(Method method);

inline bool is_dmabuf(Method method)
{
    return method == Method::dmabuf || method == Method::dmabuf_by_pcie;
}

// Whether an HCA that this process opened uses peermem for device memory. Then some device memory
// can only be staged: see cuda::rdma_capable(). Any thread.
bool peermem_in_use();

// Whether an open HCA that claimed device memory to UCP refuses memory of this GPU and no other HCA
// takes it. Then it can only be staged. Any thread.
bool is_refused(CUdevice gpu);

// How a range of device memory was registered, or why not.
struct DeviceRegistration {
    verbs::MemoryRegion mr;
    Method method = Method::none;
    int error = 0;     // errno of the last attempt
    std::string cause; // of each attempt: "dmabuf: ...; peermem: ..."
};

// Registers [start, start + length) of device memory by the given method; untried: by the first
// that works, dmabuf before peermem.
DeviceRegistration register_device_memory(const cuda::Driver& driver, const verbs::Device& hca,
                                          ibv_pd* pd, uintptr_t start, size_t length, int access,
                                          Method method);

// The methods found for one HCA. Tries nothing before there is memory of a GPU. Not thread safe.
class GpuDirect {
  public:
    GpuDirect(const verbs::Device& hca, ibv_pd* pd);

    // Whether kernel and HCA suggest that memory of some GPU can be registered. If not, the HCA
    // claims no device memory to UCP and tries none.
    bool possible() const { return possible_; }

    // Why not, if there may be GPUs.
    const std::string& obstacle() const { return obstacle_; }

    // Tries to register a piece of this memory, if its GPU was not tried before. If that fails,
    // tries other memory of the same context, to distinguish a GPU without support from a special
    // allocation. Does not use a GPU that sees an HCA's writes only after a flush and has no flush.
    // Returns the result as a line for the user; empty if it was known.
    std::string learn(const cuda::Driver& driver, const cuda::Pointer& memory);

    // The same with memory of its own in the GPU's primary context, which it creates. Does nothing
    // if the compute mode gives the GPU to one process and this process does not use it.
    std::string learn(const cuda::Driver& driver, const cuda::Device& gpu);

    Method method(CUdevice gpu) const;
    void decide(CUdevice gpu, Method method);

  private:
    std::string learn(const cuda::Device& gpu, auto test);
    DeviceRegistration test_own_memory(const cuda::Driver& driver) const;

    const verbs::Device& hca_;
    ibv_pd* pd_;
    bool possible_ = false;
    std::string obstacle_;
    std::map<CUdevice, Method> methods_;
};

} // namespace gdr::mem
