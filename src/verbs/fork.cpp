// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Fork support of libibverbs.
#include "verbs/fork.hpp"

#include "verbs/library.hpp"

#include <infiniband/verbs.h>

namespace gdr::verbs {

bool fork_init_needed()
{
    return open_library().empty() && ibv_is_fork_initialized() != IBV_FORK_UNNEEDED;
}

int fork_init()
{
    return ibv_fork_init();
}

} // namespace gdr::verbs
