// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What RC interfaces exchange besides payload: the packets of the handshake, and the meaning of the
// immediate data that every active message carries in place of a header.
#pragma once

#include "rc/connect/address.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gdr::rc {

// Immediate data: bits 0-4 are the active message id, flags follow.
inline constexpr uint32_t kAmIdMask = 0x1f;
inline constexpr uint32_t kWindowRequest = 0x20; // the receiver shall grant half a window
inline constexpr uint32_t kWindowGrant = 0x40;   // no message: grants half a window
// Grants under way to a peer: it has at most two open requests, one for each half of its window.
inline constexpr unsigned kMostGrants = 16;
inline constexpr uint32_t kControlFlags = kWindowRequest | kWindowGrant;

// Of a message without flags, in network byte order: the id is its last byte.
constexpr uint32_t immediate_of(uint8_t id)
{
    return std::endian::native == std::endian::little ? uint32_t{id} << 24 : id;
}

// The active side connects an endpoint; the passive side is the interface whose address it was
// given.
enum class PacketType : uint8_t {
    request = 1,        // active side: connect my queue pair
    reply = 2,          // passive side: to this one of mine
    reject = 3,         // passive side: not possible; see reason
    farewell = 4,       // active side: my queue pair is gone
    farewell_heard = 5, // passive side
    question = 6,       // passive side: is your queue pair still there?
    confirmation = 7,   // active side: it is
};

enum class RejectReason : uint8_t {
    none = 0,
    no_resources = 1, // no queue pair could be made or connected
    too_many = 2,     // the interface has reached its limit
};

inline constexpr uint32_t kPacketMagic = 0x31524447; // "GDR1"

struct [[gnu::packed]] Packet {
    uint32_t magic;
    uint8_t version;
    PacketType type;
    RejectReason reason;
    uint8_t max_dest_rd_atomic; // reads and atomics that the sender serves at once
    uint64_t source;            // incarnation of the sending interface
    uint64_t target;            // incarnation of the intended interface
    uint64_t connection;        // the active side's name for the connection
    uint32_t qpn;               // RC queue pair of the sender
    uint32_t psn;               // its first packet's sequence number
    uint32_t handshake_qpn;     // of the sender: where an answer goes
    uint32_t handshake_qkey;
    DeviceAddress device; // of the sender
    uint64_t proof; // hash of all before it with the passive side's key, which the sender knows
};
static_assert(sizeof(Packet) == 81);

inline uint64_t proof(const Packet& packet, const HashKey& key)
{
    return siphash(key, &packet, offsetof(Packet, proof));
}

} // namespace gdr::rc
