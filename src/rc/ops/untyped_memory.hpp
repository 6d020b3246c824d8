// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short operations whose payload nobody has checked. UCP tries them before it allocates a request,
// detects the memory type and chooses a protocol (host/memtype_cache.hpp). The CPU reads the
// payload, so GPU memory is refused as if resources were lacking. UCP then takes the long way and
// detects GPU memory by the same check as here: whatever is host memory to UCP is accepted here,
// including managed and pinned memory, and a forgotten page is checked again. A caller returns with
// the same operation only if it has told UCP that GPU memory is host memory, or has given UCP no
// memory domain that knows better. That is an error and no reason to wait.
#pragma once

#include "mem/host_pages.hpp"
#include "rc/endpoint.hpp"

namespace gdr::rc {

// typed: UCP has detected that the payload is host memory.
enum class Payload { typed, untyped };

// Asks the driver about unknown memory; ordinary memory is known from then on. UCS_OK, or why the
// CPU must not read it.
[[gnu::cold, gnu::noinline]] ucs_status_t check_unknown_memory(Endpoint& ep, const void* payload,
                                                               size_t length);

template <Payload payload>
[[gnu::always_inline]] inline bool is_host(const void* address)
{
    return payload == Payload::typed ||
           mem::host_pages::contains(reinterpret_cast<uintptr_t>(address));
}

// The caller has checked ready(): an operation that cannot be posted is refused for that alone.
template <Payload payload>
[[gnu::always_inline]] inline ucs_status_t check_memory(Endpoint& ep, const void* address,
                                                        size_t length)
{
    return is_host<payload>(address) ? UCS_OK : check_unknown_memory(ep, address, length);
}

} // namespace gdr::rc
