// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The three calls that kernels of expert parallelism make of a network, under short names: a put of
// a token, an addition to a count that comes after the tokens, and the wait until all have gone.
// All threads of a warp call together. An adapter for kernels that were written for another
// library begins here: it turns what they know of a peer into these arguments.
#pragma once

#include <ucx-gdr/ugdr_initiate.cuh>

namespace gpu_link {

// One peer, over one channel: what is put, where to, and the counts there, by their numbers.
struct Link {
    ugdr_dev_t gdr;
    unsigned channel;
    unsigned from, to, counts;
};

UGDR_DEVICE void put(const Link& link, unsigned long long from, unsigned long long to,
                     unsigned long long bytes)
{
    ugdr_dev_put<UGDR_LEVEL_WARP>(link.gdr, link.channel, link.from, from, link.to, to, bytes);
}

// After all that was put over the link.
UGDR_DEVICE void add(const Link& link, unsigned count, unsigned long long value)
{
    ugdr_dev_atomic_add<UGDR_LEVEL_WARP>(link.gdr, link.channel, link.counts, 8ull * count, value);
}

// Whether all have arrived; if not, the link is broken.
UGDR_DEVICE bool quiet(const Link& link)
{
    return ugdr_dev_quiet<UGDR_LEVEL_WARP>(link.gdr, link.channel) == 0;
}

} // namespace gpu_link
