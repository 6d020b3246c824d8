// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What ops/relaxed_writes.hpp keeps of an interface and of its endpoints.
#pragma once

extern "C" {
#include <uct/api/tl.h>
}

#include <array>

namespace gdr::rc {

// State of an interface.
struct ReadsBeforeWrites {
    uct_iface_ops_t operations{}; // the original ones
    unsigned orders = 0;          // fences and flushes of all endpoints
};

// State of an endpoint: a remote key that was read by, and the number of orders at that time.
struct LastRead {
    uct_rkey_t rkey = UCT_INVALID_RKEY;
    unsigned orders = 0;
};
using LastReads = std::array<LastRead, 4>;

} // namespace gdr::rc
