// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is remembered of registered memory. Where its cache is off UCP registers each buffer of each
// message: in the steady state nothing is allocated.
#pragma once

#include <cstddef>

namespace gdr::ipc {

struct Registration {
    const void* address;
    size_t length; // bytes
};

// Any thread may give up what another made. No lock: a thread keeps some of what it gives up.
Registration* make_registration(const void* address, size_t length);
void give_up(Registration* registration);

} // namespace gdr::ipc
