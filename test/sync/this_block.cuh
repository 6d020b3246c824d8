// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The block of a thread of a GPU, without CUDA's headers.
#pragma once

#include "partitions.hpp"

namespace synctest {

#define SREG(name)                                                                                 \
    UGDR_DEVICE unsigned name##_x()                                                                \
    {                                                                                              \
        unsigned value;                                                                            \
        asm("mov.u32 %0, %%" #name ".x;" : "=r"(value));                                           \
        return value;                                                                              \
    }
SREG(ctaid)
SREG(tid)
SREG(ntid)
#undef SREG

UGDR_DEVICE Block this_block()
{
    return {ctaid_x(), tid_x(), ntid_x()};
}

} // namespace synctest
