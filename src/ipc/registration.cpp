// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Each thread keeps spare registrations until it ends.
#include "ipc/registration.hpp"

#include <array>
#include <utility>

namespace gdr::ipc {

namespace {

// Has no destructor: a thread may deregister memory after its spares are gone.
struct Spares {
    std::array<Registration*, 64> all;
    size_t count;
    bool ended;
};
thread_local Spares spares;

struct End {
    ~End()
    {
        spares.ended = true;
        while (spares.count > 0) {
            delete spares.all[--spares.count];
        }
    }
};

} // namespace

Registration* make_registration(const void* address, size_t length)
{
    if (spares.count == 0) {
        return new Registration{address, length};
    }
    Registration* registration = spares.all[--spares.count];
    *registration = {address, length};
    return registration;
}

void give_up(Registration* registration)
{
    thread_local const End end;
    if (spares.count == spares.all.size() || spares.ended) {
        delete registration;
    } else {
        spares.all[spares.count++] = registration;
    }
}

} // namespace gdr::ipc
