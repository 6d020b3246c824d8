// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Emulates an atomic operation by reads and compare-and-swaps (rc/words_under_way.hpp).
#pragma once

#include "rc/endpoint.hpp"
#include "rc/words_under_way.hpp"

namespace gdr::rc {

// UCS_INPROGRESS, or why it could not begin. The caller has checked ready() and that a buffer is
// free.
ucs_status_t read_modify_write(Endpoint& ep, const Atomic& atomic);

} // namespace gdr::rc
