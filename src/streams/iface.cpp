// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT calls that concern all operations of an interface. Endpoints keep no operations of their own,
// so a call for an endpoint is answered for its interface.

#include "streams/iface.hpp"

#include "abi/border.hpp"
#include "cuda/driver.hpp"
#include "log/log.hpp"

#include <stdexcept>

namespace gdr::streams {

namespace {

constexpr unsigned kProgress = UCT_PROGRESS_SEND | UCT_PROGRESS_RECV;

// Idle progress calls before the worker stops calling progress: registering it again at each copy
// would cost more than some idle calls do.
constexpr unsigned kIdleCalls = 4096;

Iface* iface_of(uct_iface_h handle)
{
    return reinterpret_cast<Iface*>(handle);
}

void progress_enable(uct_iface_h iface, unsigned flags)
{
    iface_of(iface)->progress_wanted.fetch_or(flags & kProgress);
    abi::uct_base_iface_progress_enable(iface, flags);
}

void progress_disable(uct_iface_h iface, unsigned flags)
{
    iface_of(iface)->progress_wanted.fetch_and(~flags);
    abi::uct_base_iface_progress_disable(iface, flags);
}

unsigned progress(uct_iface_h handle)
{
    Iface* iface = iface_of(handle);
    if (iface->operations.busy()) {
        iface->idle_calls = 0;
        return iface->operations.progress();
    }
    if (++iface->idle_calls >= kIdleCalls) {
        iface->resting = true;
        abi::uct_base_iface_progress_disable(handle, kProgress);
    }
    return 0;
}

// No call ever fails with UCS_ERR_NO_RESOURCE, so nothing ever has to wait.
ucs_status_t pending_add(uct_ep_h, uct_pending_req_t*, unsigned)
{
    return UCS_ERR_BUSY;
}
void pending_purge(uct_ep_h, uct_pending_purge_callback_t, void*) {}

ucs_status_t iface_flush(uct_iface_h iface, unsigned, uct_completion_t* completion)
{
    return abi::guarded("flush", [&] { return iface_of(iface)->operations.flush(completion); });
}

ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t* completion)
{
    return iface_flush(ep->iface, flags, completion);
}

ucs_status_t iface_fence(uct_iface_h iface, unsigned)
{
    return abi::guarded("fence", [&] {
        iface_of(iface)->operations.fence();
        return UCS_OK;
    });
}

ucs_status_t ep_fence(uct_ep_h ep, unsigned flags)
{
    return iface_fence(ep->iface, flags);
}

ucs_status_t event_fd_get(uct_iface_h iface, int* fd)
{
    *fd = iface_of(iface)->operations.event_fd();
    return UCS_OK;
}

ucs_status_t event_arm(uct_iface_h iface, unsigned)
{
    return abi::guarded("event_arm",
                        [&] { return iface_of(iface)->operations.arm() ? UCS_OK : UCS_ERR_BUSY; });
}

// The peer is this process, or the transport cannot see that it has died: UCP learns that from its
// active-message lane.
ucs_status_t ep_check(uct_ep_h, unsigned, uct_completion_t*)
{
    return UCS_OK;
}

// The device address has length 0.
ucs_status_t get_device_address(uct_iface_h, uct_device_addr_t*)
{
    return UCS_OK;
}

} // namespace

void set_operations(uct_iface_ops_t& ops)
{
    ops.ep_pending_add = pending_add;
    ops.ep_pending_purge = pending_purge;
    ops.ep_flush = ep_flush;
    ops.ep_fence = ep_fence;
    ops.ep_check = ep_check;
    ops.iface_flush = iface_flush;
    ops.iface_fence = iface_fence;
    ops.iface_progress_enable = progress_enable;
    ops.iface_progress_disable = progress_disable;
    ops.iface_progress = progress;
    ops.iface_event_fd_get = event_fd_get;
    ops.iface_event_arm = event_arm;
    ops.iface_get_device_address = get_device_address;
}

void query(Iface* iface, const Description& description, uct_iface_attr_t* attr)
{
    abi::begin_iface_query(iface, attr);
    attr->iface_addr_len = description.address_length;
    attr->cap.flags =
        UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_PENDING;
    attr->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = attr->cap.put.align_mtu = 1;
    attr->cap.put.max_iov = description.most_pieces;
    if (description.reads) {
        attr->cap.flags |= UCT_IFACE_FLAG_GET_ZCOPY;
        attr->cap.get.max_zcopy = SIZE_MAX;
        attr->cap.get.opt_zcopy_align = attr->cap.get.align_mtu = 1;
        attr->cap.get.max_iov = description.most_pieces;
    }
    attr->overhead = description.cost.send_pre_overhead;
    attr->latency.c = description.cost.latency;
    attr->bandwidth.shared = description.cost.bandwidth_shared;
}

const cuda::Driver* driver_for(const char* transport)
{
    const cuda::Driver* driver = cuda::open_driver();
    if (driver == nullptr) {
        gdr_log(error, "%s: no interface can be opened: %s", transport,
                cuda::unavailable_reason().c_str());
    }
    return driver;
}

const cuda::Driver& require_driver()
{
    const cuda::Driver* driver = cuda::open_driver();
    if (driver == nullptr) {
        throw std::runtime_error(cuda::unavailable_reason());
    }
    return *driver;
}

void end(Iface* iface)
{
    abi::uct_base_iface_progress_disable(&iface->super, kProgress);
    abi::cleanup_iface(iface);
}

bool names_peer(const uct_ep_params_t& params)
{
    constexpr uint64_t kNeeded = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    return (params.field_mask & kNeeded) == kNeeded;
}

} // namespace gdr::streams
