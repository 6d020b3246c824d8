// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calling UCT's completions.
#pragma once

#include "abi/base.hpp"

namespace gdr::abi {

// One of the operations that completion (may be NULL) counts has ended.
inline void complete(uct_completion_t* completion, ucs_status_t status)
{
    if (completion == nullptr)
        return;
    uct_completion_update_status(completion, status);
    if (--completion->count == 0)
        completion->func(completion);
}

} // namespace gdr::abi
