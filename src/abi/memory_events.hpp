// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// News from UCX's memory hooks (libucm): address ranges that are about to be unmapped.
#pragma once

#include <cstddef>

namespace gdr::abi {

// Called by the thread that unmaps, possibly inside malloc or free: must not allocate, lock or log.
using UnmapCallback = void (*)(void* address, size_t length);

// Once per process; the callback stays installed. False: the hooks cannot be installed
// (UCX_MEM_EVENTS=n, say), so no unmapping will be seen.
bool watch_unmap(UnmapCallback callback);

} // namespace gdr::abi
