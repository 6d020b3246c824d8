// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The structures of UCX's plugin ABI that have the same layout in every UCX series from 1.13 on.
// UCX does not install their header; the layout check (test/unit/layout_check) compares each of
// them with a UCX source tree. What differs between series is in src/abi/layout_*.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::abi {

// uct_am_handler_t: one entry of an interface's table of active-message handlers.
struct AmHandler {
    uct_am_callback_t cb;
    void* arg;
    uint32_t flags;
};

// uct_worker_progress_t
struct WorkerProgress {
    int id; // uct_worker_cb_id_t
    uint32_t refcount;
};

// uct_md_t
struct BaseMd {
    const void* ops;       // uct_md_ops_t of the running series
    const void* component; // uct_component_t of the running series
};

// uct_tl_device_resource_t
struct TlDevice {
    char name[32];
    uct_device_type_t type;
    ucs_sys_device_t sys_device;
};

// uct_base_iface_t: the beginning of every UCT interface. Only init_iface() initialises it.
struct BaseIface {
    uct_iface_t super;
    const void* internal_ops; // uct_iface_internal_ops_t of the running series
    uct_md_h md;
    void* worker; // uct_priv_worker_t of the running series
    AmHandler am[UCT_AM_ID_MAX];
    uct_am_tracer_t am_tracer;
    void* am_tracer_arg;
    uct_error_handler_t err_handler; // NULL: the user did not ask for errors
    void* err_handler_arg;
    uint32_t err_handler_flags;
    WorkerProgress prog;
    unsigned progress_flags;
    struct {
        unsigned num_alloc_methods;
        uct_alloc_method_t alloc_methods[UCT_ALLOC_METHOD_LAST];
        int failure_level;
        size_t max_num_eps;
    } config;
};

// uct_base_ep_t: the beginning of every UCT endpoint. Only init_ep() initialises it.
struct BaseEp {
    uct_ep_t super;
};

} // namespace gdr::abi
