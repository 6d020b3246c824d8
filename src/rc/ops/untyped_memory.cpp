// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks the payload, and refuses GPU memory.
#include "rc/ops/untyped_memory.hpp"

#include "abi/border.hpp"
#include "log/log.hpp"
#include "mem/cuda_memory.hpp"

namespace gdr::rc {
namespace {

ucs_status_t refuse(Endpoint& ep, const void* payload)
{
    auto& last = ep.refused_short;
    if (last.payload == payload && last.after == ep.posted() && last.insisted) {
        last = {};
        gdr_log(error,
                "a short message from GPU memory at %p is refused: UCP takes it for host memory. "
                "Either the program says so, or UCP has no memory domain that knows better, which "
                "UCX_TLS=gdr with UCX_ACC_DEVICES unset gives it",
                payload);
        return UCS_ERR_INVALID_PARAM;
    }
    last = {payload, ep.posted(), false};
    return UCS_ERR_NO_RESOURCE;
}

} // namespace

ucs_status_t check_unknown_memory(Endpoint& ep, const void* payload, size_t length)
{
    if (length == 0) {
        return UCS_OK;
    }
    return abi::guarded("rc: a short operation", [&] {
        const auto memory =
            mem::find_cuda_memory(*cuda::open_driver(), payload, ep.iface().rules.keep_host_pages);
        return memory && memory->kind == cuda::MemoryKind::device ? refuse(ep, payload) : UCS_OK;
    });
}

} // namespace gdr::rc
