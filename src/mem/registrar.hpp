// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registers memory with one HCA or for the CPU: finds out the kind of memory at an address and the
// range around it that is worth a registration, and makes the registration.
#pragma once

#include "mem/gpu_direct.hpp"
#include "mem/region.hpp"

#include <string>

namespace gdr::mem {

// Why memory could not be registered. unsupported: this memory can never be registered (managed
// memory, a GPU without GPUDirect RDMA); otherwise error is an errno and another try may succeed.
// managed: the CPU can access the memory.
struct Failure {
    bool unsupported = false;
    bool managed = false;
    int error = 0;
    std::string cause;
};

// Description of an address range before it is registered.
struct Target {
    MemoryKind kind = MemoryKind::host;
    // Host: whole pages; device: one or several whole allocations, or a part.
    uintptr_t start = 0;
    uintptr_t end = 0;
    size_t surplus = 0; // bytes at the end that were requested but lie behind the allocation
    BufferIds buffer_ids;
    bool in_stream_order = false; // device memory of a pool or a graph, which may free it too
    CUdevice gpu = -1;
    bool managed = false;
    // Host: as requested. Device: always remote, because the memory is registered before UCP says
    // for what (mem/reach.hpp), as a whole, and only once: it takes room in the GPU's BAR1
    // aperture.
    Access access = Access::remote;
    bool read_only = false; // host memory without write permission; register_memory() sets it
};

// Not thread safe: a cache calls it under its lock, except same_buffer().
class Registrar {
  public:
    virtual ~Registrar() = default;

    virtual Target describe(uintptr_t address, size_t length, Access access) = 0;

    // To be called when device memory appears: finds out whether memory of its GPU can be
    // registered and tells the user. False: that could not be found out.
    virtual bool learn(const cuda::Pointer&) { return true; }

    // The same for all GPUs at once.
    virtual void learn_all() {}

    // Registers [target.start, target.end). Empty on failure. Read-only memory is registered for
    // reading, and target.read_only is set.
    virtual Registration register_memory(Target& target, Failure* failure) = 0;

    // How the HCA accesses GPUs; NULL: not a registrar of an HCA.
    virtual const GpuDirect* gpu_direct() const = 0;

    // Narrows described device memory to what a buffer needs, in whole GPU pages.
    static Target narrowed(const Target& whole, uintptr_t address, size_t length);

    // Whether device memory within a region, or all of it, is still the memory that was registered.
    static bool same_buffer(const Region& region, uintptr_t address, size_t length);
    static bool same_buffer(const Region& region)
    {
        return same_buffer(region, region.start, region.end - region.start);
    }
};

// Which memory is also registered with relaxed ordering (Registration::relaxed).
struct Relaxed {
    bool host = false;
    bool device = false;
};

// Registers with an HCA.
class HcaRegistrar final : public Registrar {
  public:
    HcaRegistrar(const verbs::Device& hca, ibv_pd* pd, Relaxed relaxed = {});

    Target describe(uintptr_t address, size_t length, Access access) override;
    bool learn(const cuda::Pointer& memory) override;
    void learn_all() override;
    // Whether memory of a GPU can be registered, or that could not be found out: tries some in its
    // primary context. Throws cuda::Error.
    bool takes(CUdevice gpu);
    Registration register_memory(Target& target, Failure* failure) override;
    const GpuDirect* gpu_direct() const override { return &gpu_direct_; }

  private:
    Target describe_device(const cuda::Pointer& first, uintptr_t end);
    Registration register_host(Target& target, Failure* failure);
    Registration register_device(const Target& target, Failure* failure);

    const verbs::Device& hca_;
    ibv_pd* pd_;
    const int remote_access_;
    const Relaxed relaxed_;
    GpuDirect gpu_direct_;
};

} // namespace gdr::mem
