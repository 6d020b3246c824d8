// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The tests' kernels for GPUs, without CUDA's headers.
#include "partitions.hpp"

#define SREG(name)                                                                                 \
    __attribute__((device)) inline unsigned name##_x()                                             \
    {                                                                                              \
        unsigned value;                                                                            \
        asm("mov.u32 %0, %%" #name ".x;" : "=r"(value));                                           \
        return value;                                                                              \
    }
SREG(ctaid)
SREG(tid)
SREG(ntid)

extern "C" __attribute__((global)) void sync_produce(ugdr_dev_condition_t sends, int* data,
                                                     unsigned length, unsigned blocks, int round)
{
    synctest::produce({ctaid_x(), tid_x(), ntid_x()}, sends, data, length, blocks, round);
}

extern "C" __attribute__((global)) void sync_consume(ugdr_dev_condition_t receives, const int* data,
                                                     unsigned length, int round, int* wrong)
{
    synctest::consume({ctaid_x(), tid_x(), ntid_x()}, receives, data, length, round, wrong);
}

// For test/bench: a kernel's work, after which a message goes out, and before whose end one has
// come; the kernel before it has waited.
extern "C" __attribute__((global)) void sync_exchange(ugdr_dev_condition_t both)
{
    ugdr_dev_trigger_waited(both);
    ugdr_dev_wait(both);
}
