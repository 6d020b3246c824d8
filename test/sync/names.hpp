// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A kernel that is written by other names: those of UCX's device API, and those of the example
// adapter. As partitions.hpp for GPUs and for the host.
#pragma once

#include "contrib/examples/link.cuh"
#include "sync/ucx-gdr/ucp_device.cuh"

#include "partitions.hpp"

namespace synctest {

// What the kernel gets: lists of this side's out, and of the peer's in and signals; the same for
// the adapter.
struct Names {
    const ucp_device_mem_list_t *local, *remote;
    gpu_link::Link link;
    unsigned long long* counter; // of this side
    int* status;                 // a line where something was wrong, or 0
    int near;                    // whether the kernel reaches the peer's memory
};

UGDR_DEVICE bool completes(ucp_device_request_t* request)
{
    ucs_status_t status = UCS_INPROGRESS;
    while (status == UCS_INPROGRESS) {
        status = ucp_device_progress_req<UCS_DEVICE_LEVEL_WARP>(request);
    }
    return status == UCS_OK;
}

UGDR_DEVICE int use_names(const Names& with)
{
    constexpr ucs_device_level_t kWarp = UCS_DEVICE_LEVEL_WARP;
    ucp_device_request_t request{};
    if (ucp_device_put<kWarp>(with.local, 0, 0, with.remote, 0, 0, 64, 0, UCP_DEVICE_FLAG_NODELAY,
                              &request) != UCS_INPROGRESS ||
        !completes(&request)) {
        return __LINE__;
    }
    if (ucp_device_put<kWarp>(with.local, 0, 64, with.remote, 0, 64, 64, 0, 0, nullptr) !=
            UCS_INPROGRESS ||
        ucp_device_counter_inc<kWarp>(3, with.remote, 1, 0, 0, 0, &request) != UCS_INPROGRESS ||
        !completes(&request)) {
        return __LINE__;
    }
    if (ucp_device_put<kWarp>(with.local, 1, 0, with.remote, 0, 0, 8, 0, 0, nullptr) !=
            UCS_ERR_INVALID_PARAM ||
        ucp_device_counter_inc<kWarp>(3, with.remote, 2, 0, 0, 0, nullptr) !=
            UCS_ERR_INVALID_PARAM) {
        return __LINE__;
    }
    void* address = nullptr;
    if (ucp_device_get_ptr(with.remote, 0, &address) !=
            (with.near != 0 ? UCS_OK : UCS_ERR_UNSUPPORTED) ||
        (address != nullptr) != (with.near != 0)) {
        return __LINE__;
    }
    ucp_device_counter_write<kWarp>(with.counter, 7);
    if (ucp_device_counter_read<kWarp>(with.counter) != 7) {
        return __LINE__;
    }
    gpu_link::put(with.link, 128, 128, 64);
    gpu_link::add(with.link, 1, 5);
    return gpu_link::quiet(with.link) ? 0 : __LINE__;
}

UGDR_DEVICE void names(const Block& block, const Names& with)
{
    const int line = use_names(with);
    if (block.thread == 0) {
        *with.status = line;
    }
}

} // namespace synctest
