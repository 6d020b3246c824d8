// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/component/operation_tables.hpp"

#include "rc/component/estimate.hpp"
#include "rc/component/iface_attributes.hpp"
#include "rc/ops/operations.hpp"
#include "rc/progress.hpp"

#include <array>

namespace gdr::rc {
namespace {

ucs_status_t iface_event_fd_get(uct_iface_h iface, int* fd)
{
    *fd = rc_iface(iface).events.fd();
    return UCS_OK;
}

ucs_status_t iface_event_arm(uct_iface_h iface, unsigned)
{
    return rc_iface(iface).arm();
}

void iface_close(uct_iface_h iface)
{
    delete &rc_iface(iface);
}

const uct_iface_ops_t operations = {
    .ep_put_short = ep_put_short,
    .ep_put_bcopy = ep_put_bcopy,
    .ep_put_zcopy = ep_put_zcopy,
    .ep_get_short = ep_get_short,
    .ep_get_bcopy = ep_get_bcopy,
    .ep_get_zcopy = ep_get_zcopy,
    .ep_am_short = ep_am_short,
    .ep_am_short_iov = ep_am_short_iov,
    .ep_am_bcopy = ep_am_bcopy,
    .ep_am_zcopy = ep_am_zcopy,
    .ep_atomic_cswap64 = ep_atomic_cswap64,
    .ep_atomic_cswap32 = ep_atomic_cswap32,
    .ep_atomic32_post = ep_atomic32_post,
    .ep_atomic64_post = ep_atomic64_post,
    .ep_atomic32_fetch = ep_atomic32_fetch,
    .ep_atomic64_fetch = ep_atomic64_fetch,
    .ep_tag_eager_short = nullptr,
    .ep_tag_eager_bcopy = nullptr,
    .ep_tag_eager_zcopy = nullptr,
    .ep_tag_rndv_zcopy = nullptr,
    .ep_tag_rndv_cancel = nullptr,
    .ep_tag_rndv_request = nullptr,
    .iface_tag_recv_zcopy = nullptr,
    .iface_tag_recv_cancel = nullptr,
    .ep_pending_add = ep_pending_add,
    .ep_pending_purge = ep_pending_purge,
    .ep_flush = ep_flush,
    .ep_fence = ep_fence,
    .ep_check = ep_check,
    .ep_create = ep_create,
    .ep_connect = nullptr,
    .ep_disconnect = nullptr,
    .cm_ep_conn_notify = nullptr,
    .ep_destroy = ep_destroy,
    .ep_get_address = nullptr,
    .ep_connect_to_ep = nullptr,
    .iface_accept = nullptr,
    .iface_reject = nullptr,
    .iface_flush = iface_flush,
    .iface_fence = iface_fence,
    .iface_progress_enable = abi::uct_base_iface_progress_enable,
    .iface_progress_disable = abi::uct_base_iface_progress_disable,
    .iface_progress = progress<false>,
    .iface_event_fd_get = iface_event_fd_get,
    .iface_event_arm = iface_event_arm,
    .iface_close = iface_close,
    .iface_query = iface_query,
    .iface_get_device_address = iface_get_device_address,
    .iface_get_address = iface_get_address,
    .iface_is_reachable = iface_is_reachable,
};

void work_on_any_memory(uct_iface_ops_t& ops)
{
    ops.ep_put_short = ep_put_short_any;
    ops.ep_put_zcopy = ep_put_zcopy_any;
    ops.ep_get_bcopy = ep_get_bcopy_any;
    ops.ep_get_zcopy = ep_get_zcopy_any;
    ops.ep_am_zcopy = ep_am_zcopy_any;
}

// A short put for any memory refuses none.
void refuse_gpu_memory(uct_iface_ops_t& ops)
{
    ops.ep_am_short = ep_am_short_untyped;
    ops.ep_am_short_iov = ep_am_short_iov_untyped;
    if (ops.ep_put_short == ep_put_short) {
        ops.ep_put_short = ep_put_short_untyped;
    }
}

constexpr abi::InternalOps internal_operations = {
    .estimate_perf = estimate_perf,
    .ep_invalidate = ep_invalidate,
    .ep_is_connected = ep_is_connected,
    .device_address_size = sizeof(DeviceAddress),
};

} // namespace

IfaceOperations operations_for(const MemoryRules& rules)
{
    constexpr size_t any_memory = 1, untyped_shorts = 2, clears_behind = 4;
    static std::array<uct_iface_ops_t, 8> tables = [] {
        std::array<uct_iface_ops_t, 8> all;
        for (size_t i = 0; i < all.size(); ++i) {
            all[i] = operations;
            if (i & any_memory) {
                work_on_any_memory(all[i]);
            }
            if (i & untyped_shorts) {
                refuse_gpu_memory(all[i]);
            }
            if (i & clears_behind) {
                all[i].iface_progress = progress<true>;
            }
        }
        return all;
    }();
    uct_iface_ops_t* const table =
        &tables[(rules.any_memory ? any_memory : 0) | (rules.untyped_shorts ? untyped_shorts : 0) |
                (rules.clears_behind ? clears_behind : 0)];
    return {table, &internal_operations};
}

} // namespace gdr::rc
