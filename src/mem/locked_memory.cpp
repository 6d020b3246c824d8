// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mem/locked_memory.hpp"

#include <cerrno>
#include <sys/resource.h>

namespace gdr::mem {
namespace {

rlim_t limit_of_locked_memory()
{
    rlimit limit{};
    return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

} // namespace

bool locked_memory_is_limited()
{
    return limit_of_locked_memory() != RLIM_INFINITY;
}

std::string locked_memory_hint(int error)
{
    const rlim_t limit = limit_of_locked_memory();
    if (error != ENOMEM || limit == RLIM_INFINITY) {
        return {};
    }
    return " (locked memory is limited to " + std::to_string(limit >> 10) +
           " KiB: raise it with ulimit -l)";
}

} // namespace gdr::mem
