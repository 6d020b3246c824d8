// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completions of endpoints' work requests. The usual case is in the polling loop (progress.cpp).
#pragma once

#include "rc/endpoint.hpp"

namespace gdr::rc {

// ---- the endpoint's work requests up to this one have completed
[[gnu::always_inline]] inline void finish_up_to(Endpoint& ep, uint64_t wr_id, ucs_status_t status)
{
    // Both ids are of the same endpoint, so the difference is that of the numbers.
    while (!ep.ops.empty() && static_cast<int64_t>(wr_id - ep.ops.front().wr_id) >= 0) {
        // InfiniBand says that everything before a failed work request has succeeded. But Soft-RoCE
        // reports one that finds no route before READs whose data has not arrived.
        ep.finish(ep.ops.pop(), status);
    }
}

[[gnu::always_inline]] inline void count_up_to(Endpoint& ep, uint64_t wr_id)
{
    ep.iface().credits.give_back(static_cast<SequenceNumber>(number_of(wr_id) - ep.completed));
    ep.completed = number_of(wr_id);
}

// Work requests of the endpoint up to this one have completed, this one with status. Also handles
// everything rare.
[[gnu::cold]] void handle_sent_slow(Endpoint& ep, uint64_t wr_id, ucs_status_t status);

// What follows finish_up_to(), if there is anything rare to do.
[[gnu::cold]] void handle_sent_end(Endpoint& ep, uint64_t wr_id, ucs_status_t status);

} // namespace gdr::rc
