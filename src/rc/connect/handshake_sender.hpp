// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What both sides of the handshake do: send packets that prove what their sender was given, and
// connect a queue pair to the one that a packet names.
#pragma once

#include "rc/connect/handshake_channel.hpp"
#include "rc/queues/receives.hpp"
#include "rc/queues/settings.hpp"

#include <random>

namespace gdr::rc {

// What the handshake needs to know of its interface.
struct HandshakeSetup {
    ibv_context* context;
    ibv_pd* pd;
    ibv_cq* cq;              // of accepted connections
    ReceiveQueues* receives; // of accepted connections
    verbs::Path path;
    int remote_access; // of accepted connections
    DeviceAddress device;
    IfaceAddress iface;          // without the channel's queue pair number
    unsigned max_rd_atomic;      // of the device, as initiator
    unsigned max_dest_rd_atomic; // of the device, as responder
    ibv_mtu mtu;                 // largest to use
    const Settings* settings;
};

class HandshakeSender {
  public:
    HandshakeSender(const HandshakeSetup& setup, HandshakeChannel& channel);

    const HandshakeSetup& setup() const { return setup_; }

    uint32_t random_psn() { return random_() & kPsnMask; } // of a queue pair

    Packet packet(PacketType type, uint64_t target, uint64_t connection) const;

    // key: of the passive side.
    void send(Packet packet, const HashKey& key, const DeviceAddress& device, uint32_t qpn,
              uint32_t qkey);

    // The errno, and the step that failed.
    int connect(ibv_qp* qp, const DeviceAddress& peer, const Packet& packet, uint32_t local_psn,
                const char** failed) const;

  private:
    static constexpr uint32_t kPsnMask = 0xffffff;

    HandshakeSetup setup_;
    HandshakeChannel& channel_;
    std::random_device random_; // slow to create in a virtual machine: it probes the CPU
};

} // namespace gdr::rc
