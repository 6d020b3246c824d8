// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Compares a peer's address with ours.
#include "rc/connect/address.hpp"

#include "rc/queues/settings.hpp"

#include "verbs/gid.hpp"
#include "verbs/pkey.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gdr::rc {
namespace {

bool same_subnet(const DeviceAddress& a, const DeviceAddress& b)
{
    return std::memcmp(a.gid, b.gid, 8) == 0;
}

bool is_ethernet(const DeviceAddress& address)
{
    return address.link != Link::infiniband;
}

} // namespace

const char* unreachable_reason(const DeviceAddress& local, uint32_t segment_size,
                               const DeviceAddress* device, const IfaceAddress* iface)
{
    if (iface != nullptr && (iface->tag != kAddressTag || iface->version != kWireVersion)) {
        return "not the address of a gdr RC interface of this version";
    }
    if (iface != nullptr && iface->segment_size != segment_size) {
        return "the receive buffers differ in size (set the same UCX_GDR_RC_SEG_SIZE everywhere)";
    }
    if (device == nullptr) {
        return nullptr;
    }
    if (device->tag != kAddressTag || device->version != kWireVersion) {
        return "not the address of a gdr RC device of this version";
    }
    if (device->mtu < IBV_MTU_256 || device->mtu > IBV_MTU_4096) {
        return "the address has no possible MTU";
    }
    if (device->link != local.link) {
        bool same_kind = is_ethernet(*device) && is_ethernet(local);
        return same_kind ? "one port speaks RoCE v1, the other v2 (UCX_GDR_RC_GID_INDEX)"
                         : "one port is InfiniBand, the other RoCE";
    }
    if (is_ethernet(local)) {
        return verbs::is_ipv4_mapped(device->gid) == verbs::is_ipv4_mapped(local.gid)
                   ? nullptr
                   : "one RoCE port is addressed by IPv4, the other by IPv6 (UCX_GDR_RC_GID_INDEX)";
    }
    if (((device->pkey ^ local.pkey) & verbs::kPartition) != 0) {
        return "the ports use different partition keys (UCX_GDR_RC_PKEY)";
    }
    if (((device->pkey | local.pkey) & verbs::kFullMember) == 0) {
        return "both ports are limited members of the partition, and one has to be a full member "
               "(set that in the subnet manager, or choose another partition by UCX_GDR_RC_PKEY)";
    }
    return same_subnet(*device, local) ? nullptr : "the ports are on different InfiniBand subnets";
}

std::string to_string(const DeviceAddress& port)
{
    ibv_gid gid;
    std::copy_n(port.gid, sizeof(gid.raw), gid.raw);
    const std::string text = "GID " + verbs::to_string(gid);
    return is_ethernet(port) ? text : "LID " + std::to_string(port.lid) + ", " + text;
}

uint32_t allowed_window(uint32_t wanted, const IfaceAddress& iface)
{
    if (iface.window == 0) {
        return wanted;
    }
    return std::min(wanted, std::bit_floor(std::max<uint32_t>(iface.window, kSmallestWindow)));
}

verbs::Destination destination(const DeviceAddress& local, const DeviceAddress& peer)
{
    verbs::Destination result{};
    result.lid = peer.lid;
    result.global = is_ethernet(local) || local.grh_required != 0 || peer.grh_required != 0;
    std::memcpy(result.gid.raw, peer.gid, sizeof(peer.gid));
    return result;
}

} // namespace gdr::rc
