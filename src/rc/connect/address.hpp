// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The addresses of an RC interface: the device address says where its port is; the interface
// address names its handshake queue pair and holds the key that proves that a peer was given the
// address. Little-endian, packed, versioned. Both start with a tag that distinguishes them from
// addresses of other transports called "gdr".
#pragma once

#include "secrets/siphash.hpp"
#include "verbs/queue_pair.hpp"

#include <bit>
#include <cstdint>
#include <string>

namespace gdr::rc {

using secrets::HashKey;
using secrets::siphash;

static_assert(std::endian::native == std::endian::little, "the wire formats are little-endian");

inline constexpr uint8_t kAddressTag = 0xc5;
inline constexpr uint8_t kWireVersion = 3;

enum class Link : uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

struct [[gnu::packed]] DeviceAddress {
    uint8_t tag;
    uint8_t version;
    Link link;
    uint8_t mtu; // enum ibv_mtu: the port's active MTU
    uint16_t lid;
    uint16_t pkey;
    uint8_t gid[16];
    uint8_t grh_required; // 1 if the port requires it
};
static_assert(sizeof(DeviceAddress) <= 31, "UCP's address format");

struct [[gnu::packed]] IfaceAddress {
    uint8_t tag;
    uint8_t version;
    uint16_t window;         // messages that a peer may send before a grant; 0: no limit
    uint32_t handshake_qpn;  // of the UD queue pair
    uint32_t handshake_qkey; // random: the HCA drops datagrams with another one
    uint64_t incarnation;    // random: distinguishes it from earlier interfaces with its number
    HashKey key;             // random: peers that connect prove that they know it
    uint32_t segment_size;   // of its receive buffers
};
static_assert(sizeof(IfaceAddress) <= 63, "UCP's address format");

// Why a peer with these addresses cannot be reached from the local port, whose interface sends
// messages of up to segment_size bytes; NULL: it can. Reads only the tag of an address that is not
// ours.
const char* unreachable_reason(const DeviceAddress& local, uint32_t segment_size,
                               const DeviceAddress* device, const IfaceAddress* iface);

// The window of an endpoint to that interface, at most wanted. Both are powers of two.
uint32_t allowed_window(uint32_t wanted, const IfaceAddress& iface);

// How messages name a port: "LID 7, GID fe80::..", or "GID ::ffff:10.0.0.2" with RoCE.
std::string to_string(const DeviceAddress& port);

// Address of the peer's queue pairs as seen from the local port.
verbs::Destination destination(const DeviceAddress& local, const DeviceAddress& peer);

} // namespace gdr::rc
