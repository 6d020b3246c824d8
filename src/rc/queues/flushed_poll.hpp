// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Polls completions if GPUs see an HCA's writes only after a flush (mem/rdma_writes.hpp). The flush
// comes before anybody learns of the completions.
#pragma once

#include "verbs/completion_queue.hpp"

namespace gdr::rc {

// Like poll, with a flush.
verbs::PollCq flushed_poll(verbs::PollCq poll);

} // namespace gdr::rc
