// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an RC interface tells its peers about itself: the device address (where its port is) and the
// interface address (its handshake queue pair, and what proves to have been given the address).
// Little-endian, packed, versioned; both start with a tag that tells them from the addresses of
// other transports called "gdr".
#pragma once

#include "secrets/siphash.hpp"
#include "verbs/queue_pair.hpp"

#include <bit>
#include <cstdint>

namespace gdr::rc {

using secrets::HashKey;
using secrets::siphash;

static_assert(std::endian::native == std::endian::little, "the wire formats are little-endian");

inline constexpr uint8_t kAddressTag = 0xc5;
inline constexpr uint8_t kWireVersion = 3;
inline constexpr uint32_t kSmallestWindow = 4; // of messages

enum class Link : uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

struct [[gnu::packed]] DeviceAddress {
    uint8_t tag;
    uint8_t version;
    Link link;
    uint8_t mtu; // enum ibv_mtu: the port's active MTU
    uint16_t lid;
    uint16_t pkey;
    uint8_t gid[16];
    uint8_t grh_required; // 1: by the port, 0: not
};
static_assert(sizeof(DeviceAddress) <= 31, "UCP's address format");

struct [[gnu::packed]] IfaceAddress {
    uint8_t tag;
    uint8_t version;
    uint16_t window;         // messages that a peer may send before it is granted more; 0: any
    uint32_t handshake_qpn;  // UD
    uint32_t handshake_qkey; // random: the HCA drops other datagrams
    uint64_t incarnation;    // random: tells this interface from earlier ones with the same number
    HashKey key;             // random: who connects proves to know it
    uint32_t segment_size;   // of its receive buffers
};
static_assert(sizeof(IfaceAddress) <= 63, "UCP's address format");

// NULL: a peer with these addresses can be reached from a port with that address, whose interface
// sends messages of so many bytes at most; else the reason. An address that is not ours is read no
// further than its tag.
const char* unreachable_reason(const DeviceAddress& local, uint32_t segment_size,
                               const DeviceAddress* device, const IfaceAddress* iface);

// The window of an endpoint to that interface, where wanted is the largest. Powers of two.
uint32_t allowed_window(uint32_t wanted, const IfaceAddress& iface);

// Where the peer's queue pairs are reached from here.
verbs::Destination destination(const DeviceAddress& local, const DeviceAddress& peer);

} // namespace gdr::rc
