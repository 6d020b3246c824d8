// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The few calls that UCX makes on the interface.
#include "rc/component/dummy_iface.hpp"

#include "rc/connect/address.hpp"

#include <cstring>
#include <memory>

namespace gdr::rc {
namespace {

struct DummyIface : abi::Iface {};

DummyIface* dummy_iface(uct_iface_h iface)
{
    return reinterpret_cast<DummyIface*>(iface);
}

// Offers neither active messages nor anything else for which UCP makes a lane.
ucs_status_t query(uct_iface_h iface, uct_iface_attr_t* attr)
{
    abi::begin_iface_query(dummy_iface(iface), attr);
    attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE;
    attr->device_addr_len = sizeof(DeviceAddress);
    attr->iface_addr_len = sizeof(IfaceAddress);
    attr->bandwidth.shared = 1; // UCP ignores addresses with less
    return UCS_OK;
}

// Without the tag by which peers recognise our addresses.
ucs_status_t get_device_address(uct_iface_h, uct_device_addr_t* address)
{
    std::memset(address, 0, sizeof(DeviceAddress));
    return UCS_OK;
}

ucs_status_t get_address(uct_iface_h, uct_iface_addr_t* address)
{
    std::memset(address, 0, sizeof(IfaceAddress));
    return UCS_OK;
}

void close(uct_iface_h iface)
{
    abi::cleanup_iface(dummy_iface(iface));
    delete dummy_iface(iface);
}

uct_iface_ops_t* operations()
{
    static uct_iface_ops_t table = [] {
        uct_iface_ops_t ops{};
        ops.ep_create = [](const uct_ep_params_t*, uct_ep_h*) { return UCS_ERR_UNREACHABLE; };
        // UCT requires these three.
        ops.ep_flush = [](uct_ep_h, unsigned, uct_completion_t*) { return UCS_OK; };
        ops.ep_fence = [](uct_ep_h, unsigned) { return UCS_OK; };
        ops.ep_destroy = [](uct_ep_h) {};
        ops.iface_flush = [](uct_iface_h, unsigned, uct_completion_t*) { return UCS_OK; };
        ops.iface_fence = [](uct_iface_h, unsigned) { return UCS_OK; };
        ops.iface_progress_enable = [](uct_iface_h, unsigned) {};
        ops.iface_progress_disable = [](uct_iface_h, unsigned) {};
        ops.iface_progress = [](uct_iface_h) { return 0u; };
        ops.iface_event_fd_get = [](uct_iface_h, int*) { return UCS_ERR_UNSUPPORTED; };
        ops.iface_event_arm = [](uct_iface_h, unsigned) { return UCS_OK; };
        ops.iface_close = close;
        ops.iface_query = query;
        ops.iface_get_device_address = get_device_address;
        ops.iface_get_address = get_address;
        ops.iface_is_reachable = [](const uct_iface_h, const uct_device_addr_t*,
                                    const uct_iface_addr_t*) { return 0; };
        return ops;
    }();
    return &table;
}

constexpr abi::InternalOps internal_operations = {
    .estimate_perf = [](uct_iface_h, const abi::PerfQuery&) { return abi::PerfEstimate{}; },
    .ep_invalidate = [](uct_ep_h) { return UCS_ERR_UNSUPPORTED; },
    .ep_is_connected = [](uct_ep_h, const uct_device_addr_t*,
                          const uct_iface_addr_t*) { return false; },
    .device_address_size = sizeof(DeviceAddress),
};

} // namespace

ucs_status_t open_dummy_iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                              const uct_iface_config_t* config, uct_iface_h* iface)
{
    auto opened = std::make_unique<DummyIface>();
    const ucs_status_t status = abi::init_iface(opened.get(), operations(), &internal_operations,
                                                md, worker, params, config);
    if (status == UCS_OK) {
        *iface = &opened.release()->super;
    }
    return status;
}

} // namespace gdr::rc
