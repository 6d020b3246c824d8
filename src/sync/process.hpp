// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The contexts of this process, when it forks and when it ends.
#pragma once

#include "sync/context.hpp"

namespace gdr::sync {

// In a child of a process that had a context: its thread is not there, and CUDA does not work.
bool in_forked_child();

// From now on the context's thread is stopped when the process ends. The driver and UCX may be gone
// then: nothing else is done.
void enter(Context& context);

// It is about to be destroyed.
void leave(Context& context);

} // namespace gdr::sync
