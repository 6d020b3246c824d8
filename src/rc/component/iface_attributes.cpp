// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/component/iface_attributes.hpp"

#include "abi/border.hpp"
#include "rc/component/estimate.hpp"
#include "rc/iface.hpp"

#include <cstring>

namespace gdr::rc {
namespace {

constexpr size_t kAlignment = 64; // a cache line

} // namespace

ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t* attr)
{
    Iface& iface = rc_iface(tl_iface);
    PortCost cost = port_cost(iface.port);
    abi::begin_iface_query(&iface, attr);

    attr->cap.put.max_short =
        iface.rules.any_memory ? Limits::kMaxPutOfAnyMemory : Limits::kMaxShort;
    attr->cap.put.max_bcopy = iface.limits.segment_size();
    attr->cap.put.max_zcopy = iface.limits.max_zcopy();
    attr->cap.put.opt_zcopy_align = kAlignment;
    attr->cap.put.align_mtu = kAlignment;
    attr->cap.put.max_iov = iface.limits.max_iov();
    attr->cap.get.max_short = iface.limits.max_get_short();
    attr->cap.get.max_bcopy = iface.limits.segment_size();
    attr->cap.get.max_zcopy = iface.limits.max_zcopy();
    attr->cap.get.opt_zcopy_align = kAlignment;
    attr->cap.get.align_mtu = kAlignment;
    attr->cap.get.max_iov = iface.limits.max_iov();
    attr->cap.am.max_short = sizeof(uint64_t) + Limits::kMaxShort;
    attr->cap.am.max_bcopy = iface.limits.segment_size();
    attr->cap.am.max_zcopy = iface.limits.segment_size();
    attr->cap.am.opt_zcopy_align = kAlignment;
    attr->cap.am.align_mtu = kAlignment;
    attr->cap.am.max_hdr = kMaxHeader;
    attr->cap.am.max_iov = iface.limits.max_iov();

    constexpr uint64_t post_ops = UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_AND) |
                                  UCS_BIT(UCT_ATOMIC_OP_OR) | UCS_BIT(UCT_ATOMIC_OP_XOR);
    constexpr uint64_t fetch_ops =
        post_ops | UCS_BIT(UCT_ATOMIC_OP_SWAP) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    uint64_t atomics = 0;
    if (iface.device.attributes().atomic_cap != IBV_ATOMIC_NONE) {
        attr->cap.atomic32 = {post_ops, fetch_ops};
        attr->cap.atomic64 = {post_ops, fetch_ops};
        atomics = UCT_IFACE_FLAG_ATOMIC_DEVICE;
    }
    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                      UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_SHORT |
                      UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_CB_SYNC |
                      UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF | UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM |
                      abi::kIfaceFlagInterNode | atomics;
    attr->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;

    attr->device_addr_len = sizeof(DeviceAddress);
    attr->iface_addr_len = sizeof(IfaceAddress);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->overhead = cost.overhead;
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = cost.bandwidth;
    attr->latency.c = cost.latency;
    attr->latency.m = 1e-9;
    attr->priority = 0;
    attr->dev_num_paths = iface.local.paths;
    return UCS_OK;
}

ucs_status_t iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t* address)
{
    std::memcpy(address, &rc_iface(tl_iface).local.address, sizeof(DeviceAddress));
    return UCS_OK;
}

ucs_status_t iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t* address)
{
    Iface& iface = rc_iface(tl_iface);
    std::memcpy(address, &iface.handshake->address(), sizeof(IfaceAddress));
    return UCS_OK;
}

int iface_is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t* device_address,
                       const uct_iface_addr_t* iface_address)
{
    Iface& iface = rc_iface(tl_iface);
    return abi::guarded("rc: iface_is_reachable", [&] {
               return iface.reachability->reaches(
                          iface.handshake->address(),
                          reinterpret_cast<const DeviceAddress*>(device_address),
                          reinterpret_cast<const IfaceAddress*>(iface_address))
                          ? UCS_OK
                          : UCS_ERR_UNREACHABLE;
           }) == UCS_OK;
}

} // namespace gdr::rc
