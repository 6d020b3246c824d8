// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion queues, and the two ways to poll them.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::verbs {

// Takes up to so many completions, as ibv_poll_cq does.
using PollCq = int (*)(ibv_cq*, int, ibv_wc*);

// Both throw Error.
CompletionQueue create_cq(ibv_context* context, unsigned entries, ibv_comp_channel* channel);

// For one thread at a time, polled without a lock, and by poll_extended alone. That thread destroys
// the queue pairs of this CQ, and resets them, too: the HCA's library then looks through it.
CompletionQueue create_single_threaded_cq(ibv_context* context, unsigned entries,
                                          ibv_comp_channel* channel);

// Fills in status and wr_id, and of what succeeded opcode, byte_len, imm_data, qp_num and wc_flags.
int poll_extended(ibv_cq* cq, int most, ibv_wc* completions);

} // namespace gdr::verbs
