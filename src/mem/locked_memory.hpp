// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The process's limit of locked memory (RLIMIT_MEMLOCK), which a registration counts against.
#pragma once

#include <string>

namespace gdr::mem {

bool locked_memory_is_limited();

// What to append to the text of an errno, since a registration beyond the limit fails with ENOMEM.
// Empty for other errors, and without a limit.
std::string locked_memory_hint(int error);

} // namespace gdr::mem
