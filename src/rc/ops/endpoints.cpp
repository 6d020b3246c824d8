// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Endpoints as UCT makes and ends them.
#include "log/log.hpp"
#include "rc/endpoint.hpp"
#include "rc/ops/operations.hpp"

#include <cstring>

namespace gdr::rc {

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* ep)
{
    constexpr uint64_t needed =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    if ((params->field_mask & needed) != needed) {
        return UCS_ERR_INVALID_PARAM;
    }
    Iface& iface = rc_iface(params->iface);
    const auto& device = *reinterpret_cast<const DeviceAddress*>(params->dev_addr);
    const auto& address = *reinterpret_cast<const IfaceAddress*>(params->iface_addr);
    if (iface.outage->broken()) {
        gdr_log(diag, "no connection from %s: its HCA has failed before", iface.name().c_str());
        return UCS_ERR_IO_ERROR;
    }
    if (const char* reason = unreachable_reason(iface.local.address, iface.limits.segment_size(),
                                                &device, &address)) {
        gdr_log(error, "cannot connect from %s: %s", iface.name().c_str(), reason);
        return UCS_ERR_UNREACHABLE;
    }
    try {
        auto* endpoint = new Endpoint(iface, device, address);
        *ep = &endpoint->super;
        return UCS_OK;
    } catch (const std::bad_alloc&) {
        gdr_log(error, "no endpoint could be made on %s: out of memory", iface.name().c_str());
        return UCS_ERR_NO_MEMORY;
    } catch (const std::exception& error) {
        gdr_log(error, "no endpoint could be made on %s: %s", iface.name().c_str(), error.what());
        return UCS_ERR_IO_ERROR;
    }
}

bool ep_is_connected(uct_ep_h ep, const uct_device_addr_t*, const uct_iface_addr_t* iface)
{
    const IfaceAddress& peer = endpoint(ep).peer; // every interface has a different one
    return iface != nullptr && std::memcmp(iface, &peer.tag, sizeof(peer.tag)) == 0 &&
           std::memcmp(iface, &peer, sizeof(peer)) == 0;
}

void ep_destroy(uct_ep_h tl_ep)
{
    Endpoint& ep = endpoint(tl_ep);
    bool somebody_waits =
        !ep.flush_waiters.empty() || ep.ops.any_of_the_user() || ep.awaited_read_modify_writes > 0;
    if (ep.failure == UCS_OK && ep.has_outstanding() && !somebody_waits) {
        // Short and buffered operations are complete for the user, but must still arrive.
        ep.closing = true;
        ep.needs_attention();
        ep.signal_last();
    } else if (ep.completing()) {
        ep.closing = true;
        ep.close_queue(UCS_ERR_CANCELED);
    } else {
        delete &ep;
    }
}

ucs_status_t ep_invalidate(uct_ep_h tl_ep)
{
    Endpoint& ep = endpoint(tl_ep);
    if (ep.failure == UCS_OK) {
        ep.fail(UCS_ERR_ENDPOINT_TIMEOUT);
    }
    return UCS_OK;
}

} // namespace gdr::rc
