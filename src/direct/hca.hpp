// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One HCA: a port of it, and memory that is registered with it.
#pragma once

#include "mem/registrar.hpp"
#include "verbs/device.hpp"
#include "verbs/queue_pair.hpp"

#include <cstdint>
#include <string>

namespace gdr::direct {

// What a peer has to know of the port. It is sent as it is.
struct [[gnu::packed]] PortAddress {
    uint8_t link; // verbs::GidType
    uint8_t mtu;  // ibv_mtu
    uint16_t lid;
    uint8_t gid[sizeof(ibv_gid)];
    uint8_t grh_required;
    uint8_t atomics;            // whether it has 64-bit atomics
    uint8_t max_dest_rd_atomic; // reads and atomics that it takes at a time
};

class Hca {
  public:
    // Opens it, and takes its first active port. Throws std::exception, which says why it cannot be
    // used.
    explicit Hca(const std::string& name);
    Hca(const Hca&) = delete;
    Hca& operator=(const Hca&) = delete;

    const verbs::Device& device() const { return device_; }
    ibv_pd* pd() const { return pd_.get(); }
    const verbs::Port& port() const { return *port_; }
    const verbs::Path& path() const { return path_; }
    const PortAddress& address() const { return address_; }

    // How this port's packets reach the peer's.
    verbs::Destination destination(const PortAddress& peer) const;

    // Whether it reads and writes the memory of a GPU. One thread at a time, as the next.
    bool takes(CUdevice gpu) { return registrar_.takes(gpu); }

    // Registers memory for this side and for peers, in whole pages. Throws std::exception.
    verbs::MemoryRegion register_memory(uintptr_t address, size_t length);

  private:
    const verbs::Device device_;
    verbs::ProtectionDomain pd_;
    mem::HcaRegistrar registrar_;
    const verbs::Port* port_ = nullptr;
    verbs::Path path_{};
    PortAddress address_{};
};

} // namespace gdr::direct
