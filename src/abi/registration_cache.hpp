// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's registration cache, which finds registrations by address. UCX's hooks report unmapped
// memory to it; freed GPU memory is reported only by code that detects it.
#pragma once

#include <cstddef>

namespace gdr::abi {

// Whether protocols v2 of this series work correctly with the cache. Those of UCX 1.13 to 1.15,
// which are off by default, release registrations that are in use.
bool registration_cache_is_sound();

// set_default() for the variable that disables the cache.
bool switch_off_registration_cache(const char* name, const char* value);

// UCP will have the cache, in a process that uses no HCA. To be called if it is not disabled.
void keep_registration_cache();
bool keeps_registration_cache();

// A context with variables of its own is being made (context_settings.hpp): it may have the cache
// although it is disabled for others.
void look_at_context();

// Other memory is, or may be, at these addresses than when UCP last registered them. UCP registers
// them anew for operations that begin from now on. Registrations stay while they are in use. No
// effect if UCP has no cache. Any thread, even one in which UCP is registering memory.
void end_registrations(const void* address, size_t length);
bool ends_registrations(); // whether the calling thread is in it

} // namespace gdr::abi
