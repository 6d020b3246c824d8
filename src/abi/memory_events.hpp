// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Events of UCX's memory hooks (libucm): address ranges that are about to be unmapped, and those
// that have just been mapped.
#pragma once

#include <cstddef>

namespace gdr::abi {

// Called by the thread that maps or unmaps, possibly inside malloc or free: it must not allocate,
// lock or log.
using MappingCallback = void (*)(void* address, size_t length);

// Once per process; the callbacks stay installed. Returns false if the hooks cannot be installed
// (UCX_MEM_EVENTS=n, for example); then there are no events. If Open MPI's hooks replace UCX's,
// only unmapping is reported.
bool watch_mappings(MappingCallback mapped, MappingCallback unmapped);

// Reports GPU memory that is about to be freed; the callback may lock. The events come from UCX's
// hooks in the CUDA driver, if it was built with CUDA and has installed them, or from another
// caller. Those of report_freed() are not among them. Once per process.
void watch_frees(MappingCallback freed);

// Tells UCX and everybody who listens to its hooks that this GPU memory is freed, as the hook of
// cuMemFree does in a UCX with CUDA. Any thread.
void report_freed(const void* address, size_t length);

} // namespace gdr::abi
