// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether libucs's memory type cache looks empty. If the cache exists and is empty, UCP passes
// small payloads to its transports' short operations without asking for their memory type
// (ucp_proto_is_inline, ucp_proto_select_is_short and the stream's send, from UCX 1.13 to 1.22).
// That saves a request and the choice of a protocol. Nothing is looked up in the cache, which is
// disabled.
#pragma once

namespace gdr::abi::memtype_cache {

// Creates the cache, with an entry that nobody looks for. To be called before the cache is disabled
// (UCX_MEMTYPE_CACHE). Returns false, and nothing has changed, if UCX's memory hooks are off or the
// user has disabled the cache.
bool create();
bool created();

// Removes the entry or adds it. A cache with other entries is not empty without it either. One
// thread at a time; only if created().
void look_empty(bool empty);

// Whether the entry was removed last.
bool looks_empty();

} // namespace gdr::abi::memtype_cache
