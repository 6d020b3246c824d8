// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion queues, and the two ways to poll them.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::verbs {

// Polls up to so many completions, like ibv_poll_cq.
using PollCq = int (*)(ibv_cq*, int, ibv_wc*);

// Both throw Error.
CompletionQueue create_cq(ibv_context* context, unsigned entries, ibv_comp_channel* channel);

// Polled without a lock, by one thread at a time, and only with poll_extended(). The same thread
// must destroy and reset the queue pairs of this CQ, because the provider library then searches the
// CQ.
CompletionQueue create_single_threaded_cq(ibv_context* context, unsigned entries,
                                          ibv_comp_channel* channel);

// Fills in status and wr_id, and for successful completions opcode, byte_len, imm_data, qp_num and
// wc_flags.
int poll_extended(ibv_cq* cq, int most, ibv_wc* completions);

// Takes the events of a channel that has this CQ alone and does not block. Returns how many there
// were.
unsigned take_events(ibv_comp_channel* channel, ibv_cq* cq);

} // namespace gdr::verbs
