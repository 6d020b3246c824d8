// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registering memory, with one HCA or for the CPU: what kind of memory an address is, which range
// around it is worth a registration, and how it is made.
#pragma once

#include "mem/gpu_direct.hpp"
#include "mem/region.hpp"

#include <string>

namespace gdr::mem {

// Why memory could not be registered. unsupported: this memory can never be (managed memory, a GPU
// without GPUDirect RDMA); otherwise error is an errno and trying again may help. managed: the CPU
// reaches it.
struct Failure {
    bool unsupported = false;
    bool managed = false;
    int error = 0;
    std::string cause;
};

// What an address range is, before it is registered.
struct Target {
    MemoryKind kind = MemoryKind::host;
    // Host: whole pages; device: the whole allocation, or several, or a part.
    uintptr_t start = 0;
    uintptr_t end = 0;
    size_t surplus = 0; // of it, behind the allocation: asked for, but no memory
    BufferIds buffer_ids;
    bool in_stream_order = false; // device memory of a pool or a graph, which may free it, too
    CUdevice gpu = -1;
    bool managed = false;
    // Host: as asked for. Device: it is registered before UCP knows for what (mem/reach.hpp), as
    // a whole, and once, for it takes room in the GPU's BAR1 aperture.
    Access access = Access::remote;
    bool read_only = false; // host memory that may not be written: told by register_memory()
};

// Not thread safe: a cache calls it under its lock, same_buffer() excepted.
class Registrar {
  public:
    virtual ~Registrar() = default;

    virtual Target describe(uintptr_t address, size_t length, Access access) = 0;

    // Device memory has come: finds out whether that of its GPU can be registered, and tells the
    // user. False: that could not be found out.
    virtual bool learn(const cuda::Pointer&) { return true; }

    // The same for all GPUs, at once.
    virtual void learn_all() {}

    // Registers [target.start, target.end). Empty on failure. Memory that may only be read is
    // registered for that alone, and target.read_only is set.
    virtual Registration register_memory(Target& target, Failure* failure) = 0;

    // How the HCA reaches GPUs; NULL: registrations are not with an HCA.
    virtual const GpuDirect* gpu_direct() const = 0;

    // Of described device memory what a buffer needs, in whole pages of the GPU.
    static Target narrowed(const Target& whole, uintptr_t address, size_t length);

    // Whether device memory within a region, or all of it, is still that which was registered.
    static bool same_buffer(const Region& region, uintptr_t address, size_t length);
    static bool same_buffer(const Region& region)
    {
        return same_buffer(region, region.start, region.end - region.start);
    }
};

// Which memory is registered with relaxed ordering, too (Registration::relaxed).
struct Relaxed {
    bool host = false;
    bool device = false;
};

// With an HCA.
class HcaRegistrar final : public Registrar {
  public:
    HcaRegistrar(const verbs::Device& hca, ibv_pd* pd, Relaxed relaxed);

    Target describe(uintptr_t address, size_t length, Access access) override;
    bool learn(const cuda::Pointer& memory) override;
    void learn_all() override;
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
