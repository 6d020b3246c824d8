// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The memory domain of one HCA: its protection domain and the registrations made with it.
#pragma once

#include "abi/memory_domain.hpp"
#include "log/log.hpp"
#include "mem/cache.hpp"
#include "rc/port_events.hpp"
#include "rc/queues/registered_memory.hpp"
#include "rc/queues/settings.hpp"
#include "verbs/device.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gdr::rc {

class MemoryDomain final : public abi::MemoryDomain {
  public:
    // Throws verbs::Error.
    MemoryDomain(const std::string& device_name, const MdSettings& settings);
    ~MemoryDomain() override;

    const verbs::Device& device() const { return device_; }
    ibv_pd* pd() const { return pd_.get(); }
    PortEvents& port_events() { return port_events_; }
    mem::Cache& cache() { return cache_; }

    // UCX opens an interface on every port that it was told about, and gives up altogether if one
    // fails. So a port is offered only if the limit of locked memory leaves room for an interface,
    // and this room is kept until the interface is opened. Throws verbs::Error.
    void reserve(const verbs::Port& port);
    void take_reserve(const verbs::Port& port);

    // Whether the HCA has shared receive queues. Tried once.
    bool shares_receives();

    // UCX was told about ports, and opens interfaces on them.
    std::atomic<bool> has_offered{false};
    std::atomic<bool> logged_receives{false}; // what a connection takes, without an SRQ

    abi::MdAttributes attributes() const override;
    ucs_status_t reg(void* address, size_t length, abi::Registration asked,
                     uct_mem_h* memh) override;
    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override;
    ucs_status_t pack_rkey(uct_mem_h memh, const void* address, size_t length,
                           void* buffer) override;

    // The handle of managed memory, which no HCA registers, for UCP's protocols v1: they register
    // memory without asking for its type.
    static const mem::Region kUnregistered;

  private:
    log::Level failure_level(const mem::Failure& failure, bool hide);

    const verbs::Device device_;
    const verbs::ProtectionDomain pd_;
    PortEvents port_events_{device_};
    mem::Cache cache_;
    std::once_flag receives_tried_;
    bool shares_receives_ = false;
    std::mutex reserves_lock_;
    std::map<uint8_t, RegisteredMemory> reserves_; // by port
    std::atomic<bool> warned_ = false;             // of a failure that UCP wants hidden
};

} // namespace gdr::rc
