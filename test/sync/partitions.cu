// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The tests' kernels for GPUs, without CUDA's headers.
#include "partitions.hpp"

#include "this_block.cuh"

extern "C" __attribute__((global)) void sync_produce(ugdr_dev_condition_t sends, int* data,
                                                     unsigned length, unsigned blocks, int round)
{
    synctest::produce(synctest::this_block(), sends, data, length, blocks, round);
}

extern "C" __attribute__((global)) void sync_consume(ugdr_dev_condition_t receives, const int* data,
                                                     unsigned length, int round, int* wrong)
{
    synctest::consume(synctest::this_block(), receives, data, length, round, wrong);
}

// For test/bench: a kernel's work, after which a message goes out, and before whose end one has
// come; the kernel before it has waited.
extern "C" __attribute__((global)) void sync_exchange(ugdr_dev_condition_t both)
{
    ugdr_dev_trigger_waited(both);
    ugdr_dev_wait(both);
}
