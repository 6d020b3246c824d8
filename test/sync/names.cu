// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernel of names.hpp, for GPUs.
#include "names.hpp"

#include "this_block.cuh"

extern "C" __attribute__((global)) void sync_names(synctest::Names with)
{
    synctest::names(synctest::this_block(), with);
}
