// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registered memory in a process that forks. Before Linux 5.12 parent and child share a registered
// page until one of them writes to it, and the HCA may be left with the other one's page. After
// ibv_fork_init() libibverbs keeps registered pages out of children. Newer kernels copy registered
// pages for the child during fork.
#pragma once

namespace gdr::verbs {

// Whether this kernel needs ibv_fork_init().
bool fork_init_needed();

// Calls ibv_fork_init() for the whole process and returns 0 or an errno. It fails with EINVAL once
// anything in the process has been registered.
int fork_init();

} // namespace gdr::verbs
