// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registered memory in a process that forks. Before Linux 5.12 parent and child share a registered
// page until one of both writes, and the HCA stays with the other one's: after ibv_fork_init()
// libibverbs keeps registered pages from children. Since then the kernel gives the child a copy at
// once.
#pragma once

namespace gdr::verbs {

// Whether this kernel leaves it to libibverbs.
bool fork_init_needed();

// ibv_fork_init(), for the whole process: 0 or an errno. Too late, EINVAL, once anything in the
// process has been registered.
int fork_init();

} // namespace gdr::verbs
