// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What RC interfaces say to each other besides payload: the packets of the handshake, and the
// meaning of the immediate data that every active message carries in place of a header.
#pragma once

#include "rc/address.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gdr::rc {

// Immediate data: bits 0-4 the active-message id, then flags.
inline constexpr uint32_t kAmIdMask = 0x1f;
inline constexpr uint32_t kWindowRequest = 0x20; // the receiver shall grant half a window
inline constexpr uint32_t kWindowGrant = 0x40;   // no message: half a window is granted
inline constexpr uint32_t kControlFlags = kWindowRequest | kWindowGrant;

// Of a message, without flags, as it is sent: the id is its last byte.
constexpr uint32_t immediate_of(uint8_t id)
{
    return std::endian::native == std::endian::little ? uint32_t{id} << 24 : id;
}

// The initiator connects an endpoint; the acceptor is the interface whose address it was given.
enum class PacketType : uint8_t {
    request = 1,        // of the initiator: connect my queue pair
    reply = 2,          // of the acceptor: to this one of mine
    reject = 3,         // of the acceptor: not possible: reason
    farewell = 4,       // of the initiator: my queue pair is gone
    farewell_heard = 5, // of the acceptor
    question = 6,       // of the acceptor: is your queue pair still there?
    confirmation = 7,   // of the initiator: it is
};

enum class RejectReason : uint8_t {
    none = 0,
    no_resources = 1, // no queue pair could be made or connected
    too_many = 2,     // the interface has as many as it takes
};

inline constexpr uint32_t kPacketMagic = 0x31524447; // "GDR1"

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
    uint32_t handshake_qpn;     // of the sender: where an answer goes
    uint32_t handshake_qkey;
    DeviceAddress device; // of the sender
    uint64_t proof;       // of all before it, with the acceptor's key: the sender knows its address
};
static_assert(sizeof(Packet) == 81);

inline uint64_t proof(const Packet& packet, const HashKey& key)
{
    return siphash(key, &packet, offsetof(Packet, proof));
}

} // namespace gdr::rc
