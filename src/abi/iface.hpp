// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Interfaces and endpoints: the bases of our transports, and the few internal operations of UCT
// whose signatures change between series, in a form that does not change.
#pragma once

#include "abi/base.hpp"
#include "abi/options.hpp"

namespace gdr::abi {

enum class EpOperation {
    am_short,
    am_bcopy,
    am_zcopy,
    put_short,
    put_bcopy,
    put_zcopy,
    get_short,
    get_bcopy,
    get_zcopy,
    atomic_post,
    atomic_fetch,
    other, // an operation that we lack (tag offload, later series' additions)
};

// A query of UCP's protocol selection.
struct PerfQuery {
    EpOperation operation;
    ucs_memory_type_t local_memory_type;
    ucs_memory_type_t remote_memory_type;
    ucs_sys_device_t local_sys_device;
    ucs_sys_device_t remote_sys_device;
};

// The answer: seconds, bytes per second.
struct PerfEstimate {
    double send_pre_overhead;
    double send_post_overhead;
    double recv_overhead;
    double bandwidth_dedicated;
    double bandwidth_shared;
    double latency;
    double latency_per_endpoint;
    size_t max_inflight_eps;
};

// The internal operations of a transport. In static storage; every pointer is set.
struct InternalOps {
    PerfEstimate (*estimate_perf)(uct_iface_h iface, const PerfQuery& query);
    ucs_status_t (*ep_invalidate)(uct_ep_h ep);

    // Whether the endpoint is connected to the interface with these addresses (NULL: not given).
    bool (*ep_is_connected)(uct_ep_h ep, const uct_device_addr_t* device,
                            const uct_iface_addr_t* iface);

    size_t device_address_size; // bytes, at most 31; 0: there is none
};

// Standard layout up to and including `internal`: UCX reads it as uct_base_iface_t. Derived classes
// add members, never virtual functions.
struct Iface : BaseIface {
    const InternalOps* internal;
};

struct Ep : BaseEp {};

// Initialise and clean up the base part. ops and internal must outlive the interface. config is the
// interface's configuration as UCX passed it to Transport::iface_open. The series' additional
// operations (connect_to_ep_v2, is_reachable_v2, ...) are derived from ops.
ucs_status_t init_iface(Iface* iface, uct_iface_ops_t* ops, const InternalOps* internal,
                        uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config);
void cleanup_iface(Iface* iface);

ucs_status_t init_ep(Ep* ep, Iface* iface);
void cleanup_ep(Ep* ep);

// Clears all fields of the running series' uct_iface_attr_t and sets the base values. Transports
// then set the fields of 1.13 that are not zero. Headers of older series lack this flag:
void begin_iface_query(Iface* iface, uct_iface_attr_t* attr);
inline constexpr uint64_t kIfaceFlagInterNode = uint64_t{1} << 54; // read by 1.18 and later

// UCT's own progress switches, for uct_iface_ops_t; every series exports them.
extern "C" {
void uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);
}

// Reports a failed endpoint to the user's error handler (worker thread only). UCS_OK: handled.
ucs_status_t handle_ep_error(Iface* iface, Ep* ep, ucs_status_t status);

} // namespace gdr::abi
