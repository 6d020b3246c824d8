// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What RC interfaces say to each other besides payload: the packets of the handshake, and the
// meaning of the immediate data that every active message carries in place of a header.
#pragma once

#include "rc/address.hpp"

#include <cstdint>

namespace gdr::rc {

// Immediate data: bits 0-4 the active-message id, then flags.
inline constexpr uint32_t kAmIdMask = 0x1f;
inline constexpr uint32_t kWindowRequest = 0x20; // the receiver shall grant half a window
inline constexpr uint32_t kWindowGrant = 0x40;   // no message: half a window is granted
inline constexpr uint32_t kControlFlags = kWindowRequest | kWindowGrant;

enum class PacketType : uint8_t {
    request = 1,    // connect my queue pair
    reply = 2,      // to this one of mine
    reject = 3,     // not possible: reason
    disconnect = 4, // my queue pair is gone
};

enum class RejectReason : uint8_t {
    none = 0,
    stale_address = 1, // the interface that had this address is gone
    no_resources = 2,  // no queue pair could be made or connected
};

inline constexpr uint32_t kPacketMagic = 0x31524447; // "GDR1"
inline constexpr uint32_t kQueueKey = 0x11524447;

struct [[gnu::packed]] Packet {
    uint32_t magic;
    uint8_t version;
    PacketType type;
    RejectReason reason;
    uint8_t max_dest_rd_atomic; // reads and atomics the sender serves at once
    uint64_t source;            // incarnation of the sending interface
    uint64_t target;            // incarnation of the interface meant
    uint64_t connection;        // the initiator's name for the connection
    uint32_t qpn;               // RC queue pair of the sender
    uint32_t psn;               // its first packet's sequence number
    uint32_t handshake_qpn;     // where an answer goes
    DeviceAddress device;       // of the sender
};
static_assert(sizeof(Packet) == 68);

} // namespace gdr::rc
