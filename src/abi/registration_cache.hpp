// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's cache of registrations, which finds them by their addresses. Hooks of UCX's tell it of
// memory that is unmapped; of GPU memory that is freed ours do (hooks), and whoever notices.
#pragma once

#include <cstddef>

namespace gdr::abi {

// A context is being made with variables of its own (context_settings.hpp): it may have the cache
// although the user has switched it off for others.
void look_at_context();

// Other memory is at these addresses, or may be, than was when UCP registered them last: it
// registers them anew for what it begins from now on. Registrations in use stay until they are
// used no more. No effect where UCP has no cache. Any thread, also one that UCP registers in.
void end_registrations(const void* address, size_t length);
bool ends_registrations(); // whether the calling thread is in there

} // namespace gdr::abi
