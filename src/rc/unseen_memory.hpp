// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short operations whose payload nobody has looked at: UCP tries them before it allocates a
// request, asks what memory it is and chooses a protocol (abi/memtype_cache.hpp). The CPU reads the
// payload, so GPU memory is refused as if resources were lacking. UCP then goes the long way, and
// finds that it is GPU memory by the same look as here: whatever is host memory to UCP is taken
// here, managed and pinned memory included, and a page that is forgotten is looked at again. Only
// who has told UCP that GPU memory is host memory, or has left it without a memory domain that
// knows better, comes back with the same: that is an error, not a reason to wait.
#pragma once

#include "mem/host_pages.hpp"
#include "rc/endpoint.hpp"

namespace gdr::rc {

enum class Payload { seen, unseen };

// Asks the driver about what is not known, which ordinary memory is from then on. UCS_OK, or why
// the CPU does not read it.
[[gnu::cold, gnu::noinline]] ucs_status_t look_at_unknown(Endpoint& ep, const void* payload,
                                                          size_t length);

template <Payload payload>
[[gnu::always_inline]] inline bool is_seen(const void* address)
{
    return payload == Payload::seen ||
           mem::host_pages::contains(reinterpret_cast<uintptr_t>(address));
}

// The caller checked ready(): what cannot be posted is refused for that alone.
template <Payload payload>
[[gnu::always_inline]] inline ucs_status_t look_at(Endpoint& ep, const void* address, size_t length)
{
    return is_seen<payload>(address) ? UCS_OK : look_at_unknown(ep, address, length);
}

} // namespace gdr::rc
