// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Taking completions where GPUs see what an HCA has written only after a flush
// (mem/rdma_writes.hpp): it is done before anybody learns of them.
#pragma once

#include "verbs/completion_queue.hpp"

namespace gdr::rc {

// Polls as the given function does.
verbs::PollCq flushed_poll(verbs::PollCq poll);

} // namespace gdr::rc
