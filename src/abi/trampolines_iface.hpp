// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT's internal operations on interfaces and endpoints, in any series' layout, forwarded to a
// transport's InternalOps.
#pragma once

#include "abi/border.hpp"
#include "abi/iface.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace gdr::abi {

// For operations that we lack, whatever their parameters are.
template <class... Args>
ucs_status_t unsupported(Args...)
{
    return UCS_ERR_UNSUPPORTED;
}

inline const InternalOps& operations_of(uct_iface_h iface)
{
    return *reinterpret_cast<const Iface*>(iface)->internal;
}

template <class L>
EpOperation operation_of(typename L::EpOp operation)
{
    switch (operation) {
    case L::kEpOpAmShort:
        return EpOperation::am_short;
    case L::kEpOpAmBcopy:
        return EpOperation::am_bcopy;
    case L::kEpOpAmZcopy:
        return EpOperation::am_zcopy;
    case L::kEpOpPutShort:
        return EpOperation::put_short;
    case L::kEpOpPutBcopy:
        return EpOperation::put_bcopy;
    case L::kEpOpPutZcopy:
        return EpOperation::put_zcopy;
    case L::kEpOpGetShort:
        return EpOperation::get_short;
    case L::kEpOpGetBcopy:
        return EpOperation::get_bcopy;
    case L::kEpOpGetZcopy:
        return EpOperation::get_zcopy;
    case L::kEpOpAtomicPost:
        return EpOperation::atomic_post;
    case L::kEpOpAtomicFetch:
        return EpOperation::atomic_fetch;
    }
    return EpOperation::other;
}

// Fields that the caller left out must not be read.
template <class L>
PerfQuery query_of(const typename L::PerfAttr& attr)
{
    PerfQuery query{EpOperation::other, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST,
                    UCS_SYS_DEVICE_ID_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN};
    if (attr.field_mask & L::kPerfAttrOperation) {
        query.operation = operation_of<L>(attr.operation);
    }
    if (attr.field_mask & L::kPerfAttrLocalMemoryType) {
        query.local_memory_type = attr.local_memory_type;
    }
    if (attr.field_mask & L::kPerfAttrRemoteMemoryType) {
        query.remote_memory_type = attr.remote_memory_type;
    }
    if (attr.field_mask & L::kPerfAttrLocalSysDevice) {
        query.local_sys_device = attr.local_sys_device;
    }
    if (attr.field_mask & L::kPerfAttrRemoteSysDevice) {
        query.remote_sys_device = attr.remote_sys_device;
    }
    return query;
}

template <class L>
ucs_status_t estimate_perf(uct_iface_h iface, void* perf_attr)
{
    return guarded("estimate_perf", [&] {
        auto* attr = static_cast<typename L::PerfAttr*>(perf_attr);
        const PerfEstimate estimate = operations_of(iface).estimate_perf(iface, query_of<L>(*attr));
        const uct_ppn_bandwidth_t bandwidth{estimate.bandwidth_dedicated,
                                            estimate.bandwidth_shared};
        const auto asked = [&](uint64_t field) { return (attr->field_mask & field) != 0; };
        if (asked(L::kPerfAttrSendPreOverhead)) {
            attr->send_pre_overhead = estimate.send_pre_overhead;
        }
        if (asked(L::kPerfAttrSendPostOverhead)) {
            attr->send_post_overhead = estimate.send_post_overhead;
        }
        if (asked(L::kPerfAttrRecvOverhead)) {
            attr->recv_overhead = estimate.recv_overhead;
        }
        if (asked(L::kPerfAttrBandwidth)) {
            attr->bandwidth = bandwidth;
        }
        if constexpr (requires { attr->path_bandwidth; }) {
            if (asked(L::kPerfAttrPathBandwidth)) { // one path takes all of it
                attr->path_bandwidth = bandwidth;
            }
        }
        if (asked(L::kPerfAttrLatency)) {
            attr->latency = {estimate.latency, estimate.latency_per_endpoint};
        }
        if (asked(L::kPerfAttrMaxInflightEps)) {
            attr->max_inflight_eps = estimate.max_inflight_eps;
        }
        if constexpr (requires { attr->flags; }) {
            if (asked(L::kPerfAttrFlags)) { // sending does not wait for received data
                attr->flags = 0;
            }
        }
        return UCS_OK;
    });
}

inline ucs_status_t invalidate(uct_ep_h ep)
{
    return guarded("ep_invalidate", [&] { return operations_of(ep->iface).ep_invalidate(ep); });
}

template <class Params> // unsigned flags, or a pointer; neither is defined yet
ucs_status_t ep_invalidate(uct_ep_h ep, Params)
{
    return invalidate(ep);
}

// Whether an address by which this interface can reach a peer is of the same device: then the
// device's part is equal.
inline bool is_same_device(uct_iface_h iface, const uct_device_addr_t* address)
{
    std::array<std::byte, 64> own{};
    const size_t size = operations_of(iface).device_address_size;
    if (size == 0) {
        return true;
    }
    return iface->ops.iface_get_device_address(
               iface, reinterpret_cast<uct_device_addr_t*>(own.data())) == UCS_OK &&
           std::memcmp(own.data(), address, size) == 0;
}

template <class L>
int iface_is_reachable_v2(uct_iface_h iface, const typename L::ReachableParams* params)
{
    const auto given = [&](uint64_t field) { return (params->field_mask & field) != 0; };
    const uct_device_addr_t* device =
        given(L::kReachableDeviceAddr) ? params->device_addr : nullptr;
    const uct_iface_addr_t* address = given(L::kReachableIfaceAddr) ? params->iface_addr : nullptr;
    if (given(L::kReachableInfoString) && given(L::kReachableInfoStringLength) &&
        params->info_string_length > 0) {
        params->info_string[0] = '\0';
    }
    if (!iface->ops.iface_is_reachable(iface, device, address)) {
        return 0;
    }
    return !given(L::kReachableScope) || params->scope != L::kReachableScopeDevice ||
           is_same_device(iface, device);
}

template <class L>
int ep_is_connected(uct_ep_h ep, const typename L::ConnectedParams* params)
{
    const auto given = [&](uint64_t field) { return (params->field_mask & field) != 0; };
    return operations_of(ep->iface).ep_is_connected(
        ep, given(L::kConnectedDeviceAddr) ? params->device_addr : nullptr,
        given(L::kConnectedIfaceAddr) ? params->iface_addr : nullptr);
}

// The series query capabilities here that we lack: all answers are zero.
template <class L>
ucs_status_t iface_query_v2(uct_iface_h, void* iface_attr)
{
    auto* attr = static_cast<typename L::IfaceAttrV2*>(iface_attr);
    uint64_t left = attr->field_mask;
    const auto asked = [&](uint64_t field) {
        const bool is_asked = (left & field) != 0;
        left &= ~field;
        return is_asked;
    };
    if constexpr (requires { attr->device_mem_element_size; }) {
        if (asked(L::kIfaceAttrV2ElementSize)) {
            attr->device_mem_element_size = 0;
        }
    }
    if constexpr (requires { attr->max_put_sgl_zcopy_count; }) {
        if (asked(L::kIfaceAttrV2MaxPut)) {
            attr->max_put_sgl_zcopy_count = 0;
        }
        if (asked(L::kIfaceAttrV2Cap)) {
            attr->cap_flags = 0;
        }
    }
    if constexpr (requires { attr->max_get_sgl_zcopy_count; }) {
        if (asked(L::kIfaceAttrV2MaxGet)) {
            attr->max_get_sgl_zcopy_count = 0;
        }
    }
    return left == 0 ? UCS_OK : UCS_ERR_UNSUPPORTED;
}

template <class L>
constexpr typename L::InternalOpsTable make_internal_ops()
{
    typename L::InternalOpsTable ops{};
    ops.estimate_perf = estimate_perf<L>;
    ops.vfs_refresh = [](uct_iface_h) {};
    ops.ep_query = unsupported;
    ops.ep_invalidate = ep_invalidate;
    if constexpr (requires { ops.ep_connect_to_ep_v2; }) {
        ops.ep_connect_to_ep_v2 = unsupported; // all our transports connect to interfaces
    }
    if constexpr (requires { ops.iface_is_reachable_v2; }) {
        ops.iface_is_reachable_v2 = iface_is_reachable_v2<L>;
    }
    if constexpr (requires { ops.ep_is_connected; }) {
        ops.ep_is_connected = ep_is_connected<L>;
    }
    if constexpr (requires { ops.iface_query_v2; }) {
        ops.iface_query_v2 = iface_query_v2<L>;
    }
    if constexpr (requires { ops.iface_mem_element_pack; }) {
        ops.iface_mem_element_pack = unsupported;
    }
    if constexpr (requires { ops.ep_get_device_ep; }) {
        ops.ep_get_device_ep = unsupported;
    }
    if constexpr (requires { ops.ep_put_sgl_zcopy; }) {
        ops.ep_put_sgl_zcopy = unsupported;
    }
    if constexpr (requires { ops.ep_get_sgl_zcopy; }) {
        ops.ep_get_sgl_zcopy = unsupported;
    }
    if constexpr (requires { ops.ep_outstanding_purge; }) {
        ops.ep_outstanding_purge = unsupported;
    }
    return ops;
}

template <class L>
inline constexpr typename L::InternalOpsTable kInternalOps = make_internal_ops<L>();

} // namespace gdr::abi
