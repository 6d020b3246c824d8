// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short operations whose payload nobody has looked at: UCP tries them before it allocates a
// request, asks what memory it is and chooses a protocol (abi/memtype_cache.hpp). The CPU reads the
// payload, so GPU memory is refused as if resources were lacking. UCP then goes the long way, and
// finds that it is GPU memory by the same look as here: whatever is host memory to UCP is taken
// here, managed and pinned memory included, and a page that is forgotten is looked at again. Only
// who has told UCP that GPU memory is host memory, or has left it without a memory domain that
// knows better, comes back with the same: that is an error, not a reason to wait.
#include "abi/border.hpp"
#include "abi/host.hpp"
#include "mem/cuda_memory.hpp"
#include "mem/host_pages.hpp"
#include "rc/endpoint.hpp"

#include <algorithm>
#include <span>

namespace gdr::rc {
namespace {

ucs_status_t refuse(Endpoint& ep, const void* payload)
{
    auto& last = ep.refused_short;
    if (last.payload == payload && last.after == ep.posted && last.insisted) {
        last = {};
        gdr_log(
            error,
            "a short message of GPU memory at %p is refused: it was given to UCP as host memory, "
            "or UCP has no memory domain that can tell (UCX_TLS=gdr, all of UCX_DEVICES)",
            payload);
        return UCS_ERR_INVALID_PARAM;
    }
    last = {payload, ep.posted, false};
    return UCS_ERR_NO_RESOURCE;
}

// The driver is asked about what is not known, which ordinary memory is from then on.
[[gnu::cold]] ucs_status_t look(Endpoint& ep, const void* payload)
{
    return abi::guarded("rc: a short operation", [&] {
        const auto memory =
            mem::find_cuda_memory(*cuda::loaded_driver(), payload, ep.iface().keep_host_pages);
        return memory && memory->kind == cuda::MemoryKind::device ? refuse(ep, payload) : UCS_OK;
    });
}

// Whether the CPU may read it. What cannot be posted is refused for that alone.
[[gnu::always_inline]] inline ucs_status_t check(Endpoint& ep, const void* payload, size_t length)
{
    if (mem::host_pages::contains(reinterpret_cast<uintptr_t>(payload))) [[likely]]
        return UCS_OK;
    return length > 0 && ep.can_post() ? look(ep, payload) : UCS_OK;
}

} // namespace

ucs_status_t ep_am_short_of_host(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                                 unsigned length)
{
    if (const ucs_status_t status = check(endpoint(ep), payload, length); status != UCS_OK)
        return status;
    return ep_am_short(ep, id, header, payload, length);
}

ucs_status_t ep_am_short_iov_of_host(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt)
{
    for (const uct_iov_t& part : std::span(iov, iovcnt)) {
        const ucs_status_t status = check(endpoint(ep), part.buffer, part.length);
        if (status != UCS_OK)
            return status;
    }
    return ep_am_short_iov(ep, id, iov, iovcnt);
}

ucs_status_t ep_put_short_of_host(uct_ep_h ep, const void* buffer, unsigned length,
                                  uint64_t remote_addr, uct_rkey_t rkey)
{
    if (const ucs_status_t status = check(endpoint(ep), buffer, length); status != UCS_OK)
        return status;
    return ep_put_short(ep, buffer, length, remote_addr, rkey);
}

} // namespace gdr::rc
