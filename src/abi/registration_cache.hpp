// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's cache of registrations, which finds them by their addresses. Hooks of UCX's tell it of
// memory that is unmapped; of GPU memory that is freed nobody does but who notices.
#pragma once

#include <cstddef>

namespace gdr::abi {

// Whether protocols v2 of this series go well with it: those of UCX 1.13 to 1.15, which are not
// used unless the user says so, release registrations that are in use.
bool registration_cache_is_sound();

// set_default() of what switches it off.
bool switch_off_registration_cache(const char* name, const char* value);

// UCP is going to have it, in a process that uses no HCA: to be called where it is not switched
// off.
void keep_registration_cache();
bool keeps_registration_cache();

// A context is being made with variables of its own (context_settings.hpp): it may have the cache
// although it is switched off for others.
void look_at_context();

// Other memory is at these addresses, or may be, than was when UCP registered them last: it
// registers them anew for what it begins from now on. Registrations in use stay until they are
// used no more. No effect where UCP has no cache. Any thread, also one that UCP registers in.
void end_registrations(const void* address, size_t length);
bool ends_registrations(); // whether the calling thread is in there

} // namespace gdr::abi
