// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls UCT's completions.
#pragma once

#include "abi/base.hpp"

namespace gdr::abi {

// An operation that completion counts has ended; completion may be NULL.
inline void complete(uct_completion_t* completion, ucs_status_t status)
{
    if (completion == nullptr) {
        return;
    }
    uct_completion_update_status(completion, status);
    if (--completion->count == 0) {
        completion->func(completion);
    }
}

} // namespace gdr::abi
