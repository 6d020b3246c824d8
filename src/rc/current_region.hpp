// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registered GPU memory whose changes nobody reports.
#pragma once

#include "mem/cache.hpp"

namespace gdr::rc {

// Cache::current() with a log line on failure.
[[gnu::cold]] mem::Region* current_region(mem::Region* region, const void* address, size_t length);

} // namespace gdr::rc
