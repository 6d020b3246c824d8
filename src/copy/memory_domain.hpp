// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA memory domain: tells UCP which addresses are CUDA memory, allocates it, exports it as
// dmabuf, and pins the host buffers through which UCP stages it.
#pragma once

#include "abi/memory_domain.hpp"
#include "abi/options.hpp"
#include "cuda/context.hpp"
#include "cuda/driver.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gdr::copy {

struct MdConfig {
    abi::MdConfig base;
    int pin_host; // boolean
};

abi::OptionTable md_options();

// Calls from any thread.
class MemoryDomain final : public abi::MemoryDomain {
  public:
    MemoryDomain(const cuda::Driver& driver, bool pin_host);

    abi::MdAttributes attributes() const override;

    // Device and managed memory need nothing: the copy endpoint reaches all of it. Host memory is
    // pinned if that makes copies faster. That is only an improvement: registration also succeeds
    // for memory that cannot be pinned (already pinned, read-only, or the process has no CUDA
    // context yet).
    ucs_status_t reg(void* address, size_t length, abi::Registration asked,
                     uct_mem_h* memh) override;
    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override;

    // Remote keys are empty: only this process can use them.
    ucs_status_t pack_rkey(uct_mem_h memh, const void*, size_t, void* buffer) override;

    // Allocates device or managed memory in the calling thread's current context or, without one,
    // in the primary context of the first GPU that has one, which then lives at least as long as
    // the domain. UCS_ERR_NO_DEVICE if the program has no context: none is created.
    ucs_status_t alloc(size_t* length, void** address, ucs_memory_type_t type,
                       uct_mem_h* memh) override;
    ucs_status_t free(uct_mem_h memh) override;

    // Costs one driver call, and another when an allocation is seen for the first time
    // (cuda::finish_memops): UCP asks here before anything reads the memory. Known host memory
    // costs none. UCP takes every failure for "host memory", which its CPU then touches. So memory
    // that CUDA cannot classify and the CPU cannot read is reported as managed memory: UCP leaves
    // it to the copy interface, where the failure becomes the operation's.
    //
    // Ends UCP's registrations at this place unless the thread was told of the allocation before:
    // UCP's cache does not learn otherwise that device memory was freed.
    std::optional<abi::MemoryInfo> query(const void* address, size_t length) override;
    abi::Dmabuf export_dmabuf(const void* address, size_t length) override;

  private:
    abi::MemoryInfo describe(const cuda::Pointer& memory, const void* address, size_t length) const;
    bool pin(void* address, size_t length);
    void unpin(void* address);
    std::optional<CUcontext> context_for_allocation();
    bool is_reported_as(ucs_memory_type_t type, const void* address, size_t length);
    ucs_sys_device_t sys_device_of(CUdevice device) const;

    const cuda::Driver& driver_;
    const bool pin_host_;
    const bool keeps_host_pages_; // pages known to be no CUDA memory
    mutable std::once_flag devices_seen_;
    mutable std::vector<ucs_sys_device_t> sys_devices_; // by CUDA's ordinal
    std::mutex mutex_;                                  // for default_context_
    std::optional<cuda::PrimaryContext> default_context_;
};

} // namespace gdr::copy
