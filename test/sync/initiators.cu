// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The tests' kernels that initiate operations, for GPUs.
#include "initiators.hpp"

#include "this_block.cuh"

extern "C" __attribute__((global)) void sync_send_rounds(synctest::Exchange with)
{
    synctest::send_rounds(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_receive_rounds(synctest::Exchange with)
{
    synctest::receive_rounds(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_every_kind(synctest::Exchange with)
{
    synctest::every_kind(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_send_parts(synctest::Exchange with)
{
    synctest::send_parts(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_put_bytes(synctest::Exchange with)
{
    synctest::put_bytes(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_wrong(synctest::Exchange with)
{
    synctest::wrong(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_meet(synctest::Meeting with)
{
    synctest::meet_rounds(synctest::this_block(), with);
}

extern "C" __attribute__((global)) void sync_make_ready(ugdr_dev_transfer_t transfer, unsigned* out,
                                                        unsigned count, unsigned iteration)
{
    synctest::make_ready(synctest::this_block(), transfer, out, count, iteration);
}

extern "C" __attribute__((global)) void sync_look_at_arrivals(ugdr_dev_transfer_t transfer,
                                                              const unsigned* in, unsigned count,
                                                              unsigned iteration, int* statuses)
{
    synctest::look_at_arrivals(synctest::this_block(), transfer, in, count, iteration, statuses);
}
