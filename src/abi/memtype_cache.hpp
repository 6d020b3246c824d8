// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether libucs's cache of memory types looks empty. Where it exists and is empty UCP hands small
// payloads to the short operations of its transports without asking what memory they are in
// (ucp_proto_is_inline, ucp_proto_select_is_short and the stream's send, from UCX 1.13 to 1.22):
// that saves it a request and the choice of a protocol. Nothing is looked up in the cache, which is
// switched off.
#pragma once

namespace gdr::abi::memtype_cache {

// Makes it, with an entry that nobody looks for. To be called before it is switched off
// (UCX_MEMTYPE_CACHE). False, and nothing has changed: UCX's memory hooks are off, or the user has
// switched it off.
bool create();
bool created();

// Takes the entry out, or puts it in; a cache that has others is not empty without it either. One
// thread at a time; created() only.
void look_empty(bool empty);

// Whether it was taken out last.
bool looks_empty();

} // namespace gdr::abi::memtype_cache
