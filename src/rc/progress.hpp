// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Worker progress: polls and handles completions, retries pending requests, handles events.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

#include <infiniband/verbs.h>

namespace gdr::rc {

struct Iface;

// UCT's iface_progress. kClearsBehind: MemoryRules::clears_behind.
template <bool kClearsBehind>
unsigned progress(uct_iface_h iface);

// Handles one completion, which was polled elsewhere.
void handle_completion(Iface& iface, const ibv_wc& wc);

} // namespace gdr::rc
