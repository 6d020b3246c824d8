// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is remembered of registered memory. With its cache off, UCP registers each buffer of each
// message, so the steady state allocates nothing.
#pragma once

#include <cstddef>

namespace gdr::ipc {

struct Registration {
    const void* address;
    size_t length; // bytes
};

// Any thread may give up a registration that another made. No lock: a thread keeps some of those
// that it gives up.
Registration* make_registration(const void* address, size_t length);
void give_up(Registration* registration);

} // namespace gdr::ipc
