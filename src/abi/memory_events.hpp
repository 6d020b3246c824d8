// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// News from UCX's memory hooks (libucm): address ranges that are about to be unmapped, and those
// that have just been mapped.
#pragma once

#include <cstddef>

namespace gdr::abi {

// Called by the thread that maps or unmaps, possibly inside malloc or free: must not allocate, lock
// or log.
using MappingCallback = void (*)(void* address, size_t length);

// Once per process; the callbacks stay installed. False: the hooks cannot be installed
// (UCX_MEM_EVENTS=n, say), so nothing will be seen. Where hooks of Open MPI have taken the place of
// UCX's, they tell of what is unmapped alone.
bool watch_mappings(MappingCallback mapped, MappingCallback unmapped);

// The callback, which may lock, hears of GPU memory that is about to be freed from whoever tells
// UCX: its own hooks in the CUDA driver, where it was built with CUDA and has installed them. Not
// of what end_registrations() tells. Once per process.
void watch_frees(MappingCallback freed);

} // namespace gdr::abi
