// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The contexts of this process, when it forks and when it ends.
#pragma once

#include "sync/context.hpp"

namespace gdr::sync {

// Whether this is a child of a process that had a context: the library's thread is missing, and
// CUDA does not work.
bool in_forked_child();

// From now on the context's thread is stopped when the process ends. Nothing else is done then: the
// driver and UCX may be gone.
void enter(Context& context);

// The context is about to be destroyed.
void leave(Context& context);

} // namespace gdr::sync
