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
    dmabuf_by_pcie, // the HCA takes no other mapping of it: cuda::DmabufMapping
    peermem, // ibv_reg_mr of the device address, by nvidia-peermem; memory of pools is staged
};

const char* to_string(Method method);

inline bool is_dmabuf(Method method)
{
    return method == Method::dmabuf || method == Method::dmabuf_by_pcie;
}

// Whether an HCA that this process opened takes device memory by peermem. Then some of it can only
// be staged: see cuda::rdma_capable(). Any thread.
bool peermem_in_use();

// Whether an HCA that this process opened, and that UCP was told takes device memory, does not take
// that of this GPU, and no other HCA does. Then it can only be staged. Any thread.
bool is_refused(CUdevice gpu);

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

// The methods found for one HCA. Nothing is tried before memory of a GPU is there. Not thread safe.
class GpuDirect {
  public:
    GpuDirect(const verbs::Device& hca, ibv_pd* pd);

    // Some GPU's memory can be registered, as far as the kernel and the HCA tell; nothing is
    // claimed, and tried, otherwise.
    bool possible() const { return possible_; }

    // Why not, where there may be GPUs.
    const std::string& obstacle() const { return obstacle_; }

    // Tries to register a piece of this memory, if its GPU was not tried before; where that is
    // refused, of other memory of the same context, to tell a GPU from an allocation that is
    // special. A GPU that sees an HCA's writes only after a flush, and has none, is not used.
    // Returns what was found, as a line for the user; empty if that was known.
    std::string learn(const cuda::Driver& driver, const cuda::Pointer& memory);

    // The same with nobody's memory, in the GPU's primary context, which is made for it; but not
    // where others could want it for themselves (compute mode).
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
