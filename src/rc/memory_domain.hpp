// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The memory domain of one HCA: its protection domain, and the registrations made with it.
#pragma once

#include "abi/memory_domain.hpp"
#include "mem/cache.hpp"
#include "verbs/device.hpp"

#include <string>
#include <vector>

namespace gdr::rc {

class MemoryDomain final : public abi::MemoryDomain {
  public:
    // Throws verbs::Error.
    explicit MemoryDomain(const std::string& device_name);
    ~MemoryDomain() override;

    const verbs::Device& device() const { return device_; }
    ibv_pd* pd() const { return pd_.get(); }

    abi::MdAttributes attributes() const override;
    ucs_status_t reg(void* address, size_t length, bool hide_errors, uct_mem_h* memh) override;
    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override;
    ucs_status_t pack_rkey(uct_mem_h memh, void* buffer) override;

  private:
    const verbs::Device device_;
    const verbs::ProtectionDomain pd_;
    mem::Cache cache_;
};

} // namespace gdr::rc
