// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What libibverbs knows of forks.
#include "verbs/fork.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>

namespace gdr::verbs {

bool fork_init_needed()
{
    // rdma-core 35
    const auto status = reinterpret_cast<decltype(&ibv_is_fork_initialized)>(
        dlsym(RTLD_DEFAULT, "ibv_is_fork_initialized"));
    return status == nullptr || status() != IBV_FORK_UNNEEDED;
}

int fork_init()
{
    return ibv_fork_init();
}

} // namespace gdr::verbs
