// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Access to ucx_perftest.
#include "abi/perftest.hpp"

#include "abi/series.hpp"

#include <dlfcn.h>

namespace gdr::abi {

bool set_perftest_allocator(const PerftestAllocator& allocator)
{
    auto** slots =
        static_cast<const PerftestAllocator**>(dlsym(RTLD_DEFAULT, "ucx_perf_mem_type_allocators"));
    if (!slots) {
        return false;
    }
    slots[allocator.mem_type] = &allocator;
    return true;
}

unsigned perftest_rank(const void* context)
{
    return series().perftest_rank(context);
}

uct_md_h perftest_md(const void* context)
{
    return series().perftest_md(context);
}

} // namespace gdr::abi
