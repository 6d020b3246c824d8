// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The memory domain of one HCA: its protection domain, and the registrations made with it.
#pragma once

#include "abi/host.hpp"
#include "abi/memory_domain.hpp"
#include "mem/cache.hpp"
#include "rc/port_events.hpp"
#include "verbs/device.hpp"

#include <atomic>
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
    PortEvents& port_events() { return port_events_; }
    mem::Cache& cache() { return cache_; }

    abi::MdAttributes attributes() const override;
    ucs_status_t reg(void* address, size_t length, bool hide_errors, uct_mem_h* memh) override;
    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override;
    ucs_status_t pack_rkey(uct_mem_h memh, void* buffer) override;

    // The handle of managed memory, which no HCA registers, for UCP's protocols v1: they register
    // what they are given without asking what it is.
    static const mem::Region kUnregistered;

  private:
    abi::LogLevel failure_level(const mem::Failure& failure, bool hide);

    const verbs::Device device_;
    const verbs::ProtectionDomain pd_;
    PortEvents port_events_{device_};
    mem::Cache cache_;
    const bool accepts_managed_;
    std::atomic<bool> warned_ = false; // of a failure that UCP wants to be quiet about
};

} // namespace gdr::rc
